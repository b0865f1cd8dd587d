"""The test's side of a host process: start it as root or as an ordinary user, give it orders, look at it."""

from __future__ import annotations

import functools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import RestrictedPython
import zmq

import sandbox

# One for each worker of pytest-xdist: a user's threads are counted together.
ORDINARY = 42_424 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
"""The ordinary user that a host runs as when the tests run as root."""

SERVING = Path(__file__).with_name("serving.py")
_ANSWER_SECONDS = 45.0
LINUX_LAYERS = ("namespaces", "landlock", "seccomp", "rlimits", "user", "cgroup")


class HostFailed(AssertionError):
    """The host hung, crashed, or raised what no caller should see."""


class Raised(Exception):
    """The host raised one of the sandbox's own errors."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


@dataclass(frozen=True)
class Ended:
    """How a cell ended, as the caller of the session sees it."""

    text: str
    value: str | None
    data: str
    error: str | None
    message: str
    traceback: str
    limit: str | None
    survived: bool | None
    death: str | None
    died_of: str
    warnings: list[str]
    dropped: int
    stopped: bool
    made: int
    noted: list[Any]
    alive: bool
    took: float
    delayed: float
    """Of this time, how long the host was ready and had no processor: the machine had other work."""

    def within(self, seconds: float) -> bool:
        """Whether the host had its result back in this time, give or take 200 ms."""
        return self.took - self.delayed <= seconds + 0.2

    @property
    def everything(self) -> str:
        """All that came out of the kernel."""
        parts = (self.text, self.value or "", self.data, self.message, self.traceback, self.died_of, *self.warnings)
        return "\n".join(parts) + json.dumps(self.noted)

    @property
    def lines(self) -> list[str]:
        """What was printed, line by line."""
        return self.text.splitlines()


class HostProcess:
    """One host, and the sessions that it has opened."""

    def __init__(self, user: str, *, lean: bool = False) -> None:
        """`lean`: with an interpreter that has little to import, where there is one; it starts sooner."""
        self.user = user
        program = "ordinary" if lean and users()["ordinary"] == "" else user
        self.token = os.urandom(16).hex()
        self._buffer = b""
        self._owed = 0
        python, environment, uid = _interpreter(program)
        options: dict[str, Any] = {}
        if uid is not None and user == "ordinary":
            options = {"user": uid, "group": uid, "extra_groups": []}
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [python, "-B", str(_places(program)[1])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PLANTED_SECRET": self.token, **environment},
            cwd="/",
            **options,
        )

    @property
    def uid(self) -> int:
        """Who the host runs as."""
        return ORDINARY if self.user == "ordinary" and os.geteuid() == 0 else os.geteuid()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def send(self, op: str, **order: Any) -> None:
        """Give an order; `receive` has its answer."""
        while self._owed:  # a test that failed did not wait for its last one
            self.receive()
        self._owed += 1
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"op": op, **order}).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self, seconds: float = _ANSWER_SECONDS) -> Any:
        """The answer; a host that gives none in time is ended, and the test has failed."""
        assert self.process.stdout is not None
        descriptor, end = self.process.stdout.fileno(), time.monotonic() + seconds
        while b"\n" not in self._buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                self.kill()
                raise HostFailed(f"the host did not answer within {seconds:g} s")
            piece = os.read(descriptor, 1 << 20)
            if not piece:
                self.kill()
                raise HostFailed(f"the host ended with status {self.process.returncode}:\n{self.said()}")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        self._owed -= 1
        answer = json.loads(line)
        if "raised" not in answer:
            return answer["answer"]
        kind = getattr(sandbox, answer["raised"], None) if answer["raised"] in sandbox.__all__ else None
        if kind is not None and issubclass(kind, sandbox.SandboxError):
            raise Raised(answer["raised"], answer["message"])
        raise HostFailed(f"the host raised what is not a sandbox error:\n{answer['traceback']}")

    @property
    def answered(self) -> bool:
        """Whether there is something to receive."""
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def ask(self, op: str, *, seconds: float = _ANSWER_SECONDS, **order: Any) -> Any:
        """Give an order and wait for its answer."""
        self.send(op, **order)
        return self.receive(seconds)

    def said(self) -> str:
        """What the host itself wrote to standard error."""
        self.errors.seek(0)
        return self.errors.read().decode("utf-8", "replace")

    def kill(self) -> None:
        """End the host at once, as a crash would."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End the host as a program ends."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if self.alive:
            self.process.stdin.close()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        with _ignore_broken_pipe():
            self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()

    # -- what can be seen of it from outside

    def peak_memory(self) -> int:
        """The most bytes it has had in memory since `forget_peak`."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmHWM")

    def forget_peak(self) -> int:
        """Count the peak anew; what it is now."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return self.peak_memory()

    def memory(self) -> int:
        """The bytes that it has in memory now."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def processor_seconds(self) -> float:
        """The processor time that it has used."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self) -> dict[str, str]:
        """What it has open."""
        return open_files(self.process.pid)


class _ignore_broken_pipe:
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        return isinstance(error, BrokenPipeError)


@dataclass
class Box:
    """One session in a host process."""

    host: HostProcess
    isolation: str | list[str]
    limits: dict[str, Any] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    inputs: dict[str, Any] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)
    op: str = "open"
    grace: float = 0.7
    """How long its kernel may take to stop a cell before it is ended: more where a test says that it does stop."""
    files: dict[str, str] = field(default_factory=dict)
    """Files and folders that the session is given, by name of the input."""

    def __post_init__(self) -> None:
        options = {name: getattr(self, name) for name in ("isolation", "limits", "functions", "inputs", "shared")}
        if self.files:
            options["files"] = self.files
        opened = self.host.ask(self.op, **options)
        self.number, self.pid, self.scratch = (opened[name] for name in ("number", "pid", "scratch"))
        self.closed = False

    def run(self, code: str, *, timeout: float | None = None, seconds: float = _ANSWER_SECONDS) -> Ended:
        """Run a cell and wait for its end."""
        self.start(code, timeout=timeout)
        return self.finish(seconds)

    def start(self, code: str, *, timeout: float | None = None) -> None:
        """Run a cell; `finish` has its end."""
        self.host.send("run", number=self.number, code=code, timeout=timeout, grace=self.grace)

    def finish(self, seconds: float = _ANSWER_SECONDS) -> Ended:
        """How the cell ended."""
        return Ended(**self.host.receive(seconds))

    def variables(self, seconds: float = _ANSWER_SECONDS) -> dict[str, Any]:
        """The session's variables."""
        found: dict[str, Any] = self.host.ask("variables", number=self.number, seconds=seconds)
        return found

    def close(self) -> None:
        """Close the session, if its host still lives."""
        if not self.closed and self.host.alive:
            self.closed = True
            self.host.ask("close", number=self.number)


def goes_on(box: Box) -> bool:
    """Whether the host is well: another session of the same kind works."""
    neighbour = Box(box.host, box.isolation)
    works = neighbour.run("6 * 7").value == "42"
    neighbour.close()
    return works


# -- looking at the machine


def open_files(pid: int) -> dict[str, str]:
    """The descriptors of a process and what each is."""
    found = {}
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found[link.name] = str(link.readlink())
        except OSError:  # closed meanwhile, or a path that is too long to be told
            continue
    return found


def runs(pid: int) -> bool:
    """Whether a process is there and not merely waited for."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def children(pid: int) -> list[int]:
    """A process's descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    return found


def threads(pid: int) -> int:
    """How many threads a process has."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except FileNotFoundError:
        return 0


def eventually(true: Any, seconds: float = 10.0) -> bool:
    """Whether it becomes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.02)
    return bool(true())


# -- who can run here


@functools.cache
def users() -> dict[str, str]:
    """The users that a host can run as, and why another one cannot: empty when it can."""
    found = {"root": "" if os.geteuid() == 0 else "the tests do not run as root", "ordinary": ""}
    if os.geteuid() == 0 and _reachable_python() is None:
        version = ".".join(map(str, sys.version_info[:2]))
        found["ordinary"] = f"no Python {version} that an ordinary user can reach"
    return found


@functools.cache
def layers(user: str) -> dict[str, bool]:
    """Which layers work for a user."""
    if users()[user]:
        return {}
    host = HostProcess(user)
    try:
        found: dict[str, bool] = host.ask("probe")
        return found
    finally:
        host.close()


@functools.cache
def _reachable_python() -> str | None:
    """An interpreter of our version that everybody can run."""
    version = ".".join(map(str, sys.version_info[:2]))
    for candidate in (sys.executable, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"):
        real = Path(candidate).resolve()
        if real.exists() and all(parent.stat().st_mode & 0o005 == 0o005 for parent in (real, *real.parents)):
            return candidate
    return None


def _interpreter(user: str) -> tuple[str, dict[str, str], int | None]:
    """The interpreter, what its environment needs, and whom it must become."""
    environment = {"PYTHONPATH": str(_places(user)[0])}
    if user == "ordinary" and os.geteuid() == 0:
        python = _reachable_python()
        assert python is not None
        return python, environment, ORDINARY
    return sys.executable, environment, None


@functools.cache
def _places(user: str) -> tuple[Path, Path]:
    """Where a user's host finds its packages, and its program; copied to where an ordinary user can read it."""
    if not (user == "ordinary" and os.geteuid() == 0):
        return Path(sandbox.__file__).parents[1], SERVING
    place = Path(tempfile.mkdtemp(prefix="escapes-", dir="/tmp"))
    place.chmod(0o755)
    installed = Path(zmq.__file__).parents[1]
    ignore = shutil.ignore_patterns("tests", "__pycache__")
    for package in (sandbox, zmq, RestrictedPython):
        source = Path(package.__file__).parent
        shutil.copytree(source, place / source.name, ignore=ignore)
    for libraries in installed.glob("pyzmq.libs"):
        shutil.copytree(libraries, place / libraries.name)
    shutil.copy(SERVING, place / SERVING.name)
    for path in (place, *place.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return place, place / SERVING.name


def forget_places() -> None:
    """Remove what was copied."""
    if users()["ordinary"] == "" and os.geteuid() == 0 and _places.cache_info().currsize:
        shutil.rmtree(_places("ordinary")[0], ignore_errors=True)


def end(pid: int) -> None:
    """End one process that the test has started."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
