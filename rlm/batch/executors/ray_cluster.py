"""The connection to a Ray cluster: an existing one, or a temporary one on this machine. Ray's telemetry is off."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..errors import ExecutorError

_OBJECT_STORE_BYTES = 256 << 20
_CONNECT_S = 10.0
_PREFIX = "rlm-ray-"
_TEMP_DIR = "/tmp" if os.path.isdir("/tmp") else None
"""A short path: the names of Ray's sockets are long, and the length of a socket's path is limited."""


class Cluster:
    """A connection to Ray, used by one executor."""

    def __init__(self, address: str | None, processors: int) -> None:
        """Connect to the cluster at an address; without one, start a cluster with so many `processors`.

        If this process is connected to a cluster already, use that one, and leave it running. Raises `ExecutorError`.
        """
        self._folder: str | None = None
        self.ray = _import_ray(local=address is None)
        self._owned = not self.ray.is_initialized()
        self.local = self._owned and address is None
        """Whether the cluster is this machine alone."""

        if address is not None:
            _require_listener(address)
        if not self._owned:
            self._require_same(address)
        elif address is None:
            self._start(processors)
        else:
            self._connect(address)

    @property
    def processors(self) -> int:
        """The number of processors of the cluster, at least one."""
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def close(self) -> None:
        """Disconnect, and stop the cluster if it was started here."""
        if self._owned:
            self.ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, processors: int, attempts: int = 2) -> None:
        _remove_leftovers()
        self._folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=_TEMP_DIR)
        try:
            self._init(
                address="local",
                num_cpus=processors,
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE_BYTES,
                _node_ip_address="127.0.0.1",
                _temp_dir=self._folder,
            )
        except Exception as error:
            self.close()
            if attempts == 1:
                raise ExecutorError(f"Ray does not start on this machine: {_first_line(error)}") from error
            self._start(processors, attempts - 1)  # Ray allows itself 30 seconds, which a busy machine may exceed

    def _require_same(self, address: str | None) -> None:
        known = self.ray.get_runtime_context().gcs_address
        if address not in (None, "auto", known):
            raise ExecutorError(f"this process is connected to the Ray cluster at {known}, and cannot join {address}")

    def _connect(self, address: str) -> None:
        try:
            self._init(address=address)
        except Exception as error:
            raise ExecutorError(f"there is no Ray cluster at {address}: {_first_line(error)}") from error

    def _init(self, **options: Any) -> None:
        quiet = {"log_to_driver": False, "configure_logging": False, "logging_level": logging.ERROR}
        logging.getLogger("ray").setLevel(logging.ERROR)
        self.ray.init(**options, **quiet)


def _import_ray(*, local: bool) -> Any:
    """Import Ray with the environment that keeps it private."""
    environment = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    if local:
        # Listen on the loopback address only, and require a token, which is in no file, of other users of this machine.
        environment |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}
        # Without a dashboard, the records of calls would only grow with the number of items.
        environment["RAY_task_events_report_interval_ms"] = "0"
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    os.environ.update(environment)
    try:
        import ray
    except ImportError as error:
        raise ExecutorError(f"Ray is not installed ({error}). Install it with: pip install 'rlm-kernel[ray]'") from None
    return ray


def _require_listener(address: str) -> None:
    """Raise `ExecutorError` if nothing listens at HOST:PORT: Ray itself needs a minute to find out."""
    parts = urlsplit(address if "//" in address else f"//{address}")
    with contextlib.suppress(ValueError):
        if parts.hostname is None or parts.port is None:
            return
        try:
            socket.create_connection((parts.hostname, parts.port), timeout=_CONNECT_S).close()
        except OSError as error:
            raise ExecutorError(f"there is no Ray cluster at {address}: {error}") from None


def _remove_leftovers() -> None:
    """Remove the directories of drivers that were killed; their clusters ended with them."""
    for folder in Path(_TEMP_DIR or tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError, ValueError):
            try:
                os.kill(int(pid), 0)
            except ProcessLookupError:
                shutil.rmtree(folder, ignore_errors=True)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
