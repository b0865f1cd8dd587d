"""Packages of a requirements file, installed once into a folder of their own, and the pool of kernels that have them.

The folder is named by the hash of the file, so that a change of it is another environment. Wheels only: to build a
source distribution would run its code on the host.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from .errors import KernelStartError
from .pool import Pool

INSTALL_SECONDS = 900.0
_READY = ".installed"
_pools: dict[tuple[int, Path], Pool] = {}
_lock = threading.Lock()


def install(requirements: Path, cache: Path) -> Path:
    """Return the folder with the packages of a requirements or lock file, installed there unless they are already."""
    try:
        text = requirements.read_bytes()
    except OSError as error:
        raise KernelStartError(f"{requirements} cannot be read ({error.strerror})") from None
    python = f"{sys.implementation.cache_tag} {platform.machine()} {sys.platform}".encode()
    folder = cache / hashlib.sha256(python + b"\0" + text).hexdigest()[:24]
    if (folder / _READY).exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(cache / f"{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process installs, the others wait for it
        if not (folder / _READY).exists():
            _install(requirements, folder)
    return folder


def installed(folder: Path) -> tuple[str, ...]:
    """Return the names and versions of the packages in a folder."""
    found = importlib.metadata.distributions(path=[str(folder)])
    return tuple(sorted(f"{one.metadata['Name']} {one.version}" for one in found))


def pool_with(folder: Path) -> Pool:
    """Return the pool of this process whose kernels have the packages of a folder: one fork server for each folder."""
    with _lock:
        key = (os.getpid(), folder)
        if key not in _pools:
            _pools[key] = Pool(packages=str(folder))
        return _pools[key]


def _install(requirements: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # what an installation that was killed has left
    place = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    try:
        options = ["--only-binary", ":all:", "--no-input", "--disable-pip-version-check", "--quiet"]
        command = [sys.executable, "-m", "pip", "install", *options, "--target", str(place), "-r", str(requirements)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=INSTALL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise KernelStartError(f"the packages of {requirements} took too long to install") from None
        if done.returncode:
            said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-6:])
            raise KernelStartError(f"the packages of {requirements} could not be installed:\n{said}")
        place.chmod(0o755)
        (place / _READY).touch()
        place.rename(folder)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


@atexit.register
def _close_pools() -> None:
    for (owner, _), pool in list(_pools.items()):
        if owner == os.getpid():
            with contextlib.suppress(Exception):
                pool.close()
