"""One kernel process as the host sees it, and the zygote that forks it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from . import frames
from .errors import KernelStartError
from .isolation import cgroups
from .isolation.confinement import Confinement, default_read_only, resolve
from .isolation.probe import choose_tier
from .limits import Limits
from .mounts import Mount
from .polling import is_ready
from .scratch import remove

_MAX_NEWS = 1 << 20
_START_SECONDS = 60.0
_FREE_INPUT_BYTES = 16 << 20
# Users that exist on no machine: beyond what distributions and container runtimes hand out.
_SPARE_UIDS = range(1_879_048_192, 1_879_048_192 + (1 << 20))
_BOOT = "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from sandbox.zygote import main; main()"


@dataclass(frozen=True, slots=True)
class Setup:
    """What a kernel is made of before anybody uses it; kernels of one setup are interchangeable."""

    tier: str
    layers: frozenset[str]
    limits: Limits
    files: tuple[str, ...] = ()
    """Directories and files that the kernel of a notebook may read."""

    mounts: tuple[Mount, ...] = ()
    """Files that a session was given. No kernel waits in the pool for a setup with such."""

    @classmethod
    def choose(cls, isolation: str | frozenset[str], limits: Limits) -> Setup:
        """Return the setup for a tier by name, or for exactly these layers, of which nothing is then probed."""
        if isinstance(isolation, frozenset):
            return cls("layers", isolation, limits)
        choice = choose_tier(isolation)
        return cls(choice.tier, choice.layers, limits)


@dataclass(frozen=True, slots=True)
class Exit:
    """How a kernel process ended."""

    status: int
    oom: bool = False
    too_much: str | None = None
    """What the scratch directory held too much of, if the process was ended for it."""

    def __str__(self) -> str:
        if self.too_much:
            return self.too_much
        if self.oom:
            return "it used more memory than its control group allows"
        if self.status < 0:
            with contextlib.suppress(ValueError):
                return f"it was ended by {signal.Signals(-self.status).name}"
            return f"it was ended by signal {-self.status}"
        return f"it exited with status {self.status}"


class KernelProcess:
    """One confined process. Signals go through a pidfd, so that they cannot reach another process."""

    def __init__(
        self,
        pid: int,
        scratch: str | None,
        errors: int,
        exit_news: Future[Exit],
        grow: Callable[[int, int], None] = lambda pid, by: None,
        cpu_file: str | None = None,
    ) -> None:
        """`cpu_file` counts the processor time of the process and its children, where it may have any."""
        self.pid: int | None = pid
        self.scratch = scratch
        self.errors = errors
        self._killed = False
        self._lock = threading.Lock()
        self._exit = exit_news
        self._grow = grow
        self._cpu = -1
        if cpu_file is not None:
            with contextlib.suppress(OSError):
                self._cpu = os.open(cpu_file, os.O_RDONLY | os.O_CLOEXEC)
        self.pidfd = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
        os.set_blocking(errors, False)

    @property
    def alive(self) -> bool:
        """Whether the process still runs, and was not ended."""
        if self._killed or self._exit.done():
            return False
        return self.pidfd is None or not is_ready(self.pidfd, 0.0)

    def cpu_seconds(self) -> float:
        """Return the processor time that it has used, with its children where it may have any; 0 if nothing says so."""
        try:
            if self._cpu >= 0:
                return cgroups.cpu_seconds(self._cpu)
            if self.pid is not None and hasattr(time, "pthread_getcpuclockid"):
                return time.clock_gettime((~self.pid << 3) | 2)  # that process's clock, see clock_getcpuclockid(3)
        except (OSError, ValueError):
            pass  # it is gone
        return 0.0

    def signal(self, number: int) -> None:
        """Send a signal, if the process is still there."""
        with self._lock, contextlib.suppress(ProcessLookupError):  # once closed, the descriptor may be another's
            if self.pidfd is not None:
                signal.pidfd_send_signal(self.pidfd, number)
            elif self.pid is not None and self.errors >= 0 and not self._exit.done():
                os.kill(self.pid, number)

    def stop_cell(self) -> None:
        """Make the kernel abandon the cell that it runs."""
        self.signal(signal.SIGUSR1)

    def kill(self) -> None:
        """End the process and everything in it."""
        if self._killed:
            return
        running, self._killed = self.alive, True
        if self.pid is not None and running and hasattr(os, "SCHED_BATCH"):
            # To take its memory apart needs a millisecond: that must not come before what we do next.
            with contextlib.suppress(OSError):
                os.sched_setscheduler(self.pid, os.SCHED_BATCH, os.sched_param(0))
        self.signal(signal.SIGKILL)

    def hold(self, size: int) -> None:
        """Make room for inputs of that many bytes before they are sent: as they are, and as the code has them."""
        if self.pid is not None and size > _FREE_INPUT_BYTES:
            self._grow(self.pid, 5 * size)  # a character may take four bytes

    def wait(self, seconds: float) -> Exit | None:
        """Return how it ended, if it ends within that time."""
        with contextlib.suppress(TimeoutError):
            return self._exit.result(seconds)
        return None

    def said(self) -> str:
        """Return what the process wrote to its standard error itself: a crash, or why it did not start."""
        pieces = []
        with contextlib.suppress(BlockingIOError, OSError):
            while piece := os.read(self.errors, 65_536):
                pieces.append(piece)
        return b"".join(pieces)[-20_000:].decode("utf-8", "replace")

    def close(self) -> None:
        """End the process and let go of its descriptors."""
        self.kill()
        with self._lock:
            descriptors = (self.pidfd, self.errors, self._cpu)
            self.pidfd, self.errors, self._cpu = None, -1, -1
        for descriptor in descriptors:
            if descriptor is not None and descriptor >= 0:
                with contextlib.suppress(OSError):
                    os.close(descriptor)


class Zygote:
    """The host's handle of a fork server process."""

    def __init__(self, preload: tuple[str, ...] = (), packages: str | None = None) -> None:
        """`packages` is a folder that kernels import from before all others."""
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._orders: dict[int, Future[dict[str, Any]]] = {}
        self._exits: dict[int, Future[Exit]] = {}
        self._scratches: set[str] = set()
        self._ready: Future[dict[str, Any]] = Future()
        self._read_only = default_read_only()
        if packages is not None:
            self._read_only = resolve((*self._read_only, packages))
        self._uids = _spare_uids()
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the zygote)
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-B",
                    "-c",
                    _BOOT,
                    str(theirs.fileno()),
                    json.dumps({"preload": preload}),
                    module_path(packages),
                ],
                pass_fds=[theirs.fileno()],
                env=environment(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                start_new_session=True,
            )
        threading.Thread(target=self._listen, daemon=True, name="rlm-zygote").start()

    @property
    def pid(self) -> int:
        """The fork server's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can still fork."""
        return self._process.poll() is None and self._control.fileno() >= 0  # closed when it has hung up

    def wait_ready(self) -> None:
        """Return when everything is imported. Raises `KernelStartError` with what the process printed."""
        try:
            self._ready.result(_START_SECONDS)
        except (KernelStartError, TimeoutError) as error:
            said = ""
            with contextlib.suppress(ValueError):  # closed by another thread, which has started a new one
                self._stderr.seek(0)
                said = self._stderr.read()[-4000:].decode("utf-8", "replace").strip()
            raise KernelStartError(f"the fork server did not start: {error or 'no answer'}\n{said}") from None

    def spawn(
        self,
        setup: Setup,
        config: Mapping[str, Any],
        listeners: Mapping[str, socket.socket],
        calls: socket.socket | None,
    ) -> KernelProcess:
        """Fork a kernel that serves these listening sockets."""
        self.wait_ready()
        number = next(self._numbers)
        answer: Future[dict[str, Any]] = Future()
        errors, errors_end = os.pipe()
        order = {
            "id": number,
            "confinement": self._confinement(setup, number).to_json(),
            "config": dict(config),
            "channels": list(listeners),
            "calls": calls is not None,
        }
        descriptors = [listener.fileno() for listener in listeners.values()]
        descriptors += [calls.fileno()] if calls is not None else []
        with self._lock:
            self._orders[number] = answer
            try:
                frames.send(self._control, order, [*descriptors, errors_end])
            except OSError as error:
                answer.set_exception(KernelStartError(f"the fork server is gone: {error}"))
            finally:
                os.close(errors_end)
        try:
            said = answer.result(_START_SECONDS)
            if "error" in said:
                raise KernelStartError(said["error"])
            if said["scratch"] is not None:
                self._scratches.add(said["scratch"])
            return KernelProcess(said["pid"], said["scratch"], errors, said["exit"], self.grow, said["cpu"])
        except (KernelStartError, TimeoutError, OSError) as error:
            said_last = _read_to_end(errors)
            os.close(errors)
            raise KernelStartError(f"the kernel did not start: {error}\n{said_last}".strip()) from None

    def grow(self, pid: int, by: int) -> None:
        """Let a kernel's control group hold that much more."""
        with self._lock, contextlib.suppress(OSError):
            frames.send(self._control, {"grow": pid, "by": by})

    def close(self) -> None:
        """End the fork server, and with it every kernel that it forked."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stderr.close()

    def _confinement(self, setup: Setup, number: int) -> Confinement:
        uid = self._uids[(os.getpid() * 4096 + number) % len(self._uids)] if os.geteuid() == 0 else None
        read_only = resolve((*self._read_only, *setup.files)) if setup.files else self._read_only
        return Confinement(setup.layers, setup.limits, read_only, "/box", uid, setup.mounts)

    def _listen(self) -> None:
        reader = frames.Reader(_MAX_NEWS)
        with contextlib.suppress(OSError, frames.FrameError):
            while frames.receive(self._control, reader):
                for news in reader.frames():
                    self._hear(news)
        self._control.close()
        gone = KernelStartError("the fork server ended")
        with self._lock:
            waiting: list[Future[Any]] = [self._ready, *self._orders.values()]
            exits = list(self._exits.values())
        for future in waiting:
            if not future.done():
                future.set_exception(gone)
        for future in exits:
            if not future.done():
                future.set_result(Exit(-signal.SIGKILL))
        self._clean_up()

    def _clean_up(self) -> None:
        """What a fork server that was killed could not remove itself."""
        for scratch in self._scratches:
            remove(scratch)
        for _ in range(50):  # its kernels are dying; a group goes when its last process is gone
            cgroups.remove_all_of(self._process.pid)
            if not cgroups.left_by(self._process.pid):
                return
            time.sleep(0.02)

    def _hear(self, news: dict[str, Any]) -> None:
        if "ready" in news:
            self._ready.set_result(news)
        elif "exit" in news:
            with self._lock:
                future = self._exits.pop(news["exit"])
            future.set_result(Exit(news["status"], news["oom"], news["too_much"]))
        else:
            with self._lock:
                order = self._orders.pop(news["id"])
                if "pid" in news:
                    news["exit"] = self._exits[news["pid"]] = Future()
            order.set_result(news)


def _spare_uids() -> range:
    """Users for sessions when we are root. In a container that maps few, the last ones that it does map."""
    try:
        with open("/proc/self/uid_map") as file:
            spans = [(int(first), int(count)) for first, _, count in map(str.split, file)]
    except OSError:
        return _SPARE_UIDS
    if not spans or any(first <= _SPARE_UIDS[0] and _SPARE_UIDS[-1] < first + count for first, count in spans):
        return _SPARE_UIDS
    first, count = max(spans, key=lambda span: span[1])
    return range(max(first + 1, first + count - 4096), first + count)


def _read_to_end(descriptor: int) -> str:
    """Return what a process that is about to end still writes."""
    pieces: list[bytes] = []
    while is_ready(descriptor, 2.0) and (piece := os.read(descriptor, 65_536)):
        pieces.append(piece)
    return b"".join(pieces)[-20_000:].decode("utf-8", "replace")


def module_path(packages: str | None = None) -> str:
    """Return where the fork server finds its modules: as we do, this package before any script beside us."""
    here = str(Path(__file__).resolve().parent.parent)
    places = [place for place in sys.path if os.path.isabs(place)]
    first = [here] if packages is None else [here, packages]
    return json.dumps(list(dict.fromkeys([*first, *places])))


def environment() -> dict[str, str]:
    """Nothing of ours but what an interpreter needs: no key, no token, no proxy."""
    kept = {name: os.environ[name] for name in ("TZ", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
    one_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    # Large strings and arrays in huge pages where the system offers them: 100 MB of text decode in 30 ms, not in 72.
    huge_pages = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    return {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/", **huge_pages, **one_thread, **kept}
