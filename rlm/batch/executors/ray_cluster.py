"""A Ray cluster to run on: one that is there, or one on this machine that ends with us. Ray tells nobody of either."""

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

from .base import EngineError

_OBJECTS_BYTES = 256 << 20
_CONNECT_S = 10.0
_PREFIX = "rlm-ray-"
_PLACE = "/tmp" if os.path.isdir("/tmp") else None
"""The names of Ray's sockets are long, and a socket's name must not be."""


class Cluster:
    """A connection to Ray, for as long as an engine lives."""

    def __init__(self, address: str | None, processors: int) -> None:
        """Connect to the cluster at an address; without one, start one with so many `processors`.

        Where this process is connected to a cluster already, that one is used, and left as it is.
        """
        self._folder: str | None = None
        self.ray = _imported(here=address is None)
        self._ours = not self.ray.is_initialized()
        self.here = self._ours and address is None
        """Whether it is this machine alone."""

        if address is not None:
            _require_listener(address)
        if not self._ours:
            self._require_same(address)
        elif address is None:
            self._start(processors)
        else:
            self._connect(address)

    @property
    def processors(self) -> int:
        """How many processors the cluster has, at least one."""
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def close(self) -> None:
        """Disconnect, and end a cluster that was started here."""
        if self._ours:
            self.ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, processors: int, attempts: int = 2) -> None:
        _sweep()
        self._folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=_PLACE)
        try:
            self._init(
                address="local",
                num_cpus=processors,
                include_dashboard=False,
                object_store_memory=_OBJECTS_BYTES,
                _node_ip_address="127.0.0.1",
                _temp_dir=self._folder,
            )
        except Exception as error:
            self.close()
            if attempts == 1:
                raise EngineError(f"Ray does not start on this machine: {_first_line(error)}") from error
            self._start(processors, attempts - 1)  # it gives itself thirty seconds, which a busy machine may not have

    def _require_same(self, address: str | None) -> None:
        known = self.ray.get_runtime_context().gcs_address
        if address not in (None, "auto", known):
            raise EngineError(f"this process is connected to the Ray cluster at {known}, and cannot join {address}")

    def _connect(self, address: str) -> None:
        try:
            self._init(address=address)
        except Exception as error:
            raise EngineError(f"there is no Ray cluster at {address}: {_first_line(error)}") from error

    def _init(self, **options: Any) -> None:
        quiet = {"log_to_driver": False, "configure_logging": False, "logging_level": logging.ERROR}
        logging.getLogger("ray").setLevel(logging.ERROR)
        self.ray.init(**options, **quiet)


def _imported(*, here: bool) -> Any:
    """Ray, told before its import to keep to itself."""
    said = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    if here:
        # Its word for "on the loopback alone"; and others on this machine need a token, which no file has.
        said |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}
        # What it would note of every call, for a dashboard that is not there, grows with the number of items.
        said["RAY_task_events_report_interval_ms"] = "0"
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    os.environ.update(said)
    try:
        import ray
    except ImportError as error:
        raise EngineError(f"Ray is not installed ({error}). Install it with: pip install 'rlm-kernel[ray]'") from None
    return ray


def _require_listener(address: str) -> None:
    """Raise where nobody listens at HOST:PORT: Ray itself takes a minute to find out."""
    parts = urlsplit(address if "//" in address else f"//{address}")
    with contextlib.suppress(ValueError):
        if parts.hostname is None or parts.port is None:
            return
        try:
            socket.create_connection((parts.hostname, parts.port), timeout=_CONNECT_S).close()
        except OSError as error:
            raise EngineError(f"there is no Ray cluster at {address}: {error}") from None


def _sweep() -> None:
    """Remove what drivers left behind that were killed; their clusters have ended with them."""
    for folder in Path(_PLACE or tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError, ValueError):
            try:
                os.kill(int(pid), 0)
            except ProcessLookupError:
                shutil.rmtree(folder, ignore_errors=True)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
