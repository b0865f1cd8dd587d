"""A Jupyter kernel that is reached over TCP in a network namespace of its own, as if it ran on another machine."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from jupyter_client.provisioning import KernelProvisionerBase, KernelProvisionerFactory, LocalProvisioner
from traitlets import List, Unicode

NAME = "rlm-far"
_PORTS = ("shell", "control", "iopub", "stdin", "hb")


class FarProvisioner(LocalProvisioner):
    """Starts the kernel's command behind a prefix, and has it listen at an address that is not of this machine."""

    address = Unicode(config=True)
    prefix = List(Unicode(), config=True)

    async def pre_launch(self, **options: Any) -> dict[str, Any]:
        manager: Any = self.parent
        manager.ip = self.address
        for name, port in zip(_PORTS, random.SystemRandom().sample(range(20_000, 32_000), 5), strict=True):
            setattr(manager, f"{name}_port", port)
        manager.write_connection_file()
        self.connection_info = manager.get_connection_info()
        options.pop("transport_encryption", None)
        command = [*self.prefix, *manager.format_kernel_cmd()]
        return await KernelProvisionerBase.pre_launch(self, cmd=command, **options)


@contextmanager
def far_kernel(folder: Path) -> Iterator[str | None]:
    """Install a kernelspec; yield the namespace of its kernels, or None where they are on the loopback instead."""
    with _namespace() as namespace:
        config = {
            "address": "10.78.0.2" if namespace else "127.0.0.1",
            "prefix": ["ip", "netns", "exec", namespace] if namespace else [],
        }
        spec = {
            "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            "display_name": NAME,
            "language": "python",
            "metadata": {"kernel_provisioner": {"provisioner_name": NAME, "config": config}},
        }
        (folder / "kernels" / NAME).mkdir(parents=True)
        (folder / "kernels" / NAME / "kernel.json").write_text(json.dumps(spec))
        entry = EntryPoint(NAME, f"{__name__}:FarProvisioner", KernelProvisionerFactory.GROUP_NAME)
        provisioners = KernelProvisionerFactory.instance().provisioners
        before = os.environ.get("JUPYTER_PATH")
        provisioners[NAME], os.environ["JUPYTER_PATH"] = entry, str(folder)
        try:
            yield namespace
        finally:
            del provisioners[NAME]
            os.environ.pop("JUPYTER_PATH")
            if before is not None:
                os.environ["JUPYTER_PATH"] = before


@contextmanager
def _namespace() -> Iterator[str | None]:
    """Add a namespace with the address 10.78.0.2, which this one reaches from 10.78.0.1."""
    name, here = f"rlm-far-{os.getpid()}", f"rlmf{os.getpid() % 100_000_000}"
    commands = [
        f"netns add {name}",
        f"link add {here} type veth peer name eth0 netns {name}",
        f"addr add 10.78.0.1/30 dev {here}",
        f"link set {here} up",
        f"-n {name} addr add 10.78.0.2/30 dev eth0",
        f"-n {name} link set eth0 up",
        f"-n {name} link set lo up",
    ]
    able = os.geteuid() == 0 and shutil.which("ip") is not None
    try:
        yield name if able and all(_ip(command) for command in commands) else None
    finally:
        if able:
            _ip(f"link del {here}")
            _ip(f"netns del {name}")


def _ip(command: str) -> bool:
    return subprocess.run(["ip", *command.split()], capture_output=True, check=False).returncode == 0
