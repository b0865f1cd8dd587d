"""The fork server: a process that has imported everything and forks one kernel per order.

It is trusted and single-threaded, runs no code from a session, and reads orders only from the host that started it. It
owns what must not outlive a kernel: its cgroup and its scratch directory. When the host goes away, so does it, and the
kernels with it.

    order   {"id", "confinement", "config", "channels", "calls"}  + descriptors: channels..., [calls], errors
            {"grow": pid, "by": bytes}                            for inputs, which its control group counts too
    answer  {"id", "pid", "scratch", "cpu": the file that counts the processor time of its group} or {"id", "error"}
    news    {"exit": pid, "status": n, "oom": bool, "too_much": what the scratch directory held, if it was too much}
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import json
import os
import random
import select
import signal
import socket
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from . import frames, scratch
from .isolation import cgroups, namespaces, privileges, rlimits
from .isolation.confinement import Confinement, confine, prepare, separate
from .limits import Limits

PRIVATE_SCRATCH = "/box"
_MAX_ORDER = 16 << 20  # it names the files of a session, which may be thousands
_WATCH_SECONDS = 0.1
_SWEEP_SECONDS = 5.0
_WARMUPS = 10  # after eight calls the interpreter has specialised a function
# What model-written code imports most; a module that is not installed is passed over.
_PRELOAD = (
    "asyncio", "collections", "csv", "dataclasses", "datetime", "decimal", "difflib", "enum", "functools", "heapq",
    "io", "itertools", "json", "math", "operator", "os", "pathlib", "random", "re", "statistics", "string", "textwrap",
    "time", "typing", "unicodedata", "numpy", "pandas",
)  # fmt: skip


@dataclass(slots=True)
class _Child:
    limits: Limits
    cgroup: cgroups.Cgroup | None = None
    scratch: scratch.Scratch | None = None
    too_much: str | None = None
    """What was too much in the scratch directory, for which the kernel was ended."""


class _Zygote:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._reader = frames.Reader(_MAX_ORDER)
        self._descriptors: list[int] = []
        self._children: dict[int, _Child] = {}
        self._own_pids = namespaces.own_pids()
        self._places = cgroups.Places()
        self._wakeup, self._wakeup_end = os.pipe()
        os.set_blocking(self._wakeup, False)
        os.set_blocking(self._wakeup_end, False)

    def serve(self) -> None:
        signal.set_wakeup_fd(self._wakeup_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the host
        while True:
            watched: list[socket.socket | int] = [self._control, self._wakeup]
            ready, _, _ = select.select(watched, [], [], self._watch_files())
            if self._wakeup in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wakeup, 4096)
            self._reap()
            if self._control in ready:
                if not frames.receive_with_descriptors(self._control, self._reader, self._descriptors):
                    return
                for order in self._reader.frames():
                    self._obey(order)

    def end(self) -> None:
        """The host is gone: leave nothing behind."""
        for pid, child in self._children.items():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            self._clean(child)

    def _watch_files(self) -> float | None:
        """End what has filled its scratch directory. The seconds until the next look, if there is anything to watch.

        Without a private root a scratch directory is an ordinary one, and no system call is refused when it is full.
        """
        watched = [
            (pid, child, child.scratch.path) for pid, child in self._children.items() if child.scratch is not None
        ]
        for pid, child, directory in watched:
            if child.too_much is None and (problem := scratch.exceeds(directory, child.limits)):
                child.too_much = problem
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return _WATCH_SECONDS if watched else None

    def _obey(self, order: dict[str, Any]) -> None:
        if "grow" in order:
            child = self._children.get(order["grow"])
            if child is not None and child.cgroup is not None:
                with contextlib.suppress(OSError, ValueError):
                    child.cgroup.grow(order["by"])
            return
        count = len(order["channels"]) + (1 if order["calls"] else 0) + 1
        given, self._descriptors = self._descriptors[:count], self._descriptors[count:]
        try:
            answer = self._spawn(order, given)
        except OSError as error:
            answer = {"error": str(error)}
        finally:
            for descriptor in given:
                os.close(descriptor)
        frames.send(self._control, {"id": order["id"], **answer})

    def _spawn(self, order: dict[str, Any], given: list[int]) -> dict[str, Any]:
        confinement = Confinement.from_json(order["confinement"])
        child = _Child(confinement.limits)
        if "namespaces" not in confinement.layers:
            child.scratch = scratch.make()
            own = confinement.uid if "user" in confinement.layers and os.geteuid() == 0 else None
            child.scratch.make_out(own)
            if own is not None:
                os.chown(child.scratch.path, own, own)
            confinement = replace(confinement, scratch=child.scratch.path)
        if "cgroup" in confinement.layers:
            limits = confinement.limits
            memory = limits.memory_bytes + limits.file_bytes
            name = f"rlm-{os.getpid()}-{order['id']}"
            child.cgroup = cgroups.create(name, memory, limits.processes, self._places)
        try:
            pid = self._fork(confinement, order, given, child)
        except BaseException:
            self._clean(child)
            raise
        self._children[pid] = child
        cpu = child.cgroup.cpu_file if child.cgroup is not None else None
        directory = child.scratch.path if child.scratch is not None else None
        return {"pid": pid, "scratch": directory, "cpu": str(cpu) if cpu is not None else None}

    def _fork(self, confinement: Confinement, order: dict[str, Any], given: list[int], child: _Child) -> int:
        gate, gate_end = os.pipe()
        report, report_end = os.pipe()
        apart = "namespaces" in confinement.layers
        own = self._own_pids if apart else None
        outer = namespaces.fork_first(own) if own is not None else os.fork()
        if outer == 0:
            try:
                self._become(confinement, order, given, gate, report_end if apart and own is None else None)
            except BaseException:
                _last_words(given[-1])
        os.close(gate)
        os.close(report_end)
        try:
            pid = outer
            if apart and own is None:
                # Waiting for the outer process means that the kernel has been handed to us as its new parent.
                said = os.read(report, 32)
                os.waitpid(outer, 0)
                if not said:
                    raise OSError("the kernel's namespaces could not be made; see what it printed")
                pid = int(said)
            if child.cgroup is not None:
                child.cgroup.add(pid)
            os.write(gate_end, b"g")
            return pid
        finally:
            os.close(report)
            os.close(gate_end)

    def _become(
        self, confinement: Confinement, order: dict[str, Any], given: list[int], gate: int, report: int | None
    ) -> NoReturn:
        """In the child: step into the namespaces, wait for the parent's word, become a kernel.

        With `report`, a second fork is process 1 of the pid namespace, and its number is written there.
        """
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        separate(confinement, pids=report is not None)
        if report is not None and (pid := os.fork()):
            os.write(report, str(pid).encode())
            os._exit(0)
        _close_all_but({*given, gate})
        if os.read(gate, 1) != b"g":
            os._exit(0)
        os.close(gate)
        os.setsid()
        become_kernel(confinement, order, given)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = self._children.pop(pid, None)
            if child is not None:
                oom = child.cgroup is not None and child.cgroup.oom_killed()
                code = os.waitstatus_to_exitcode(status)
                news = {"exit": pid, "status": code, "oom": oom, "too_much": child.too_much}
                try:
                    frames.send(self._control, news)  # somebody may be waiting for it: cleaning up may take longer
                finally:
                    self._clean(child)

    def _clean(self, child: _Child) -> None:
        if child.cgroup is not None:
            child.cgroup.remove()
        if child.scratch is not None:
            child.scratch.remove()


def _leave_sweeper(control: socket.socket) -> int:
    """Start a process that outlives this one, if only to clean up. Return a descriptor that tells it that we live.

    The system ends kernels with their parent, but a program that another thread than the first has started loses that
    signal, and nobody else removes control groups and directories when this process and its host are killed together.
    """
    alive, alive_end = os.pipe()
    owner = os.getpid()
    if os.fork():
        os.close(alive)
        return alive_end
    try:
        control.close()
        os.setsid()
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _close_all_but({alive})
        os.read(alive, 1)
        end = time.monotonic() + _SWEEP_SECONDS
        while True:
            cgroups.remove_all_of(owner)
            scratch.sweep(owner)
            if not cgroups.left_by(owner) or time.monotonic() > end:
                break
            time.sleep(0.02)
    finally:
        os._exit(0)


def become_kernel(confinement: Confinement, order: dict[str, Any], given: list[int]) -> NoReturn:
    """Confine this process, for good, and serve as a kernel in it."""
    errors = given[-1]
    nothing = os.open(os.devnull, os.O_RDWR)
    for target, source in ((0, nothing), (1, errors), (2, errors)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(errors)
    given[-1] = 2  # for last words
    home = confinement.scratch
    size = rlimits.open_address_space()  # while there still is a /proc
    confine(confinement)
    privileges.die_with_parent()
    _set_environment(home)
    tempfile.tempdir = None
    os.chdir(home)
    sys.argv = [""]
    sys.path.insert(0, "")
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(int.from_bytes(os.urandom(4), "little"))  # without, it takes twice as long
    gc.enable()
    from .kernel import channels, main

    names, config = order["channels"], order["config"]
    if config.get("notebook"):
        del os.environ["MPLBACKEND"]  # its figures appear below the cells
    config["out"] = namespaces.OUT if "namespaces" in confinement.layers else os.path.join(home, scratch.OUT)
    sockets = dict(zip(names, given, strict=False))
    calls = given[len(names)] if order["calls"] else None
    if config.get("notebook"):
        main.notebook_kernel()(config, channels.Channels(sockets, listening=True), calls, size).start()
    main.Kernel(config, channels.Channels(sockets, listening=False), calls, size).start()


def _set_environment(home: str) -> None:
    wanted = {"HOME": home, "TMPDIR": home, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1"}
    wanted |= {"MPLBACKEND": "agg", "MPLCONFIGDIR": home}  # it makes no folder, and the scratch may be flat
    present = dict(os.environ)
    for name in present.keys() - wanted.keys():
        del os.environ[name]
    for name, value in wanted.items():
        if present.get(name) != value:
            os.environ[name] = value


def _close_all_but(keep: set[int]) -> None:
    last = -1
    for descriptor in [*sorted(keep | {0, 1, 2}), os.sysconf("SC_OPEN_MAX")]:
        if descriptor > last + 1:  # closerange(0, 0) closes everything
            os.closerange(last + 1, descriptor)
        last = descriptor


def _last_words(errors: int) -> NoReturn:
    try:
        os.write(errors, traceback.format_exc().encode()[-60_000:])
    finally:
        os._exit(70)


def _preload(names: list[str]) -> list[str]:
    loaded = []
    for name in (*_PRELOAD, *names):
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name)
            loaded.append(name)
    importlib.import_module("sandbox.kernel.snapshot").prime()
    importlib.import_module("sandbox.kernel.warmup").warm_up(_WARMUPS)
    # Lists of the host's, which exist and cannot be opened under Landlock: `mimetypes` knows enough by itself.
    importlib.import_module("mimetypes").knownfiles.clear()
    return loaded


def main() -> None:
    """`sys.argv`: the control socket's descriptor, and options as JSON."""
    control = socket.socket(fileno=int(sys.argv[1]))
    options = json.loads(sys.argv[2])
    # Not `die_with_parent`: to the system the parent is the thread that started us, and threads end. The control socket
    # tells when the host is gone.
    privileges.adopt_orphans()
    alive = _leave_sweeper(control)
    scratch.sweep()
    loaded = _preload(options.get("preload", []))
    tempfile.gettempdir()  # remembered: the directory for scratch directories of kernels that have no root of their own
    _set_environment(PRIVATE_SCRATCH)  # a kernel then finds it as it should be
    prepare()
    gc.collect()
    gc.freeze()  # collections in the children would touch, and so copy, every page
    gc.disable()
    zygote = _Zygote(control)
    frames.send(control, {"ready": os.getpid(), "preloaded": loaded})
    try:
        zygote.serve()
    finally:
        zygote.end()
        os.close(alive)
