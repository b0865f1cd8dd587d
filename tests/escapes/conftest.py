"""Which tiers and users the attempts run in, the hosts and sessions they run against, and what is planted for them."""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from . import hosts
from .hosts import Box, HostProcess
from .listeners import Listeners, everywhere

_TIERS = ("namespaces", "landlock")
_NEEDED = {
    "namespaces": {"namespaces", "seccomp", "rlimits", "user"},
    "landlock": {"landlock", "seccomp", "rlimits", "user"},
}
_MARKS = {
    "needs_root": "the test must be root to see what it has to see",
    "any_user": "who the host runs as makes no difference: the attempt is made once, as whom the tests run",
    "needs_cgroup": "nothing but a control group can prevent this",
    "layers(*names)": "the layers that the attempt is made against, for whichever user has them",
}


@dataclass(frozen=True)
class Variant:
    """A tier, and who the host runs as."""

    tier: str
    user: str

    def __str__(self) -> str:
        return f"{self.tier}-{self.user}"

    @property
    def missing(self) -> str:
        """Why it cannot run here; empty when it can."""
        if platform.system() != "Linux":
            return "Linux only"
        if why := hosts.users()[self.user]:
            return why
        lacking = sorted(_NEEDED[self.tier] - {name for name, works in hosts.layers(self.user).items() if works})
        return f"does not work here: {', '.join(lacking)}" if lacking else ""


VARIANTS = tuple(Variant(tier, user) for user in ("root", "ordinary") for tier in _TIERS)


def pytest_configure(config: pytest.Config) -> None:
    for name, why in _MARKS.items():
        config.addinivalue_line("markers", f"{name}: {why}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "variant" in metafunc.fixturenames:
        metafunc.parametrize("variant", VARIANTS, ids=str, scope="session")
    elif "user" in metafunc.fixturenames:
        metafunc.parametrize("user", ["root", "ordinary"], indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept, away = [], []
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            kept.append(item)
            continue
        item.add_marker(pytest.mark.escapes)
        why = _why_not(item)
        (away if why else kept).append(item)
        where = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        variant = where.get("variant") or where.get("user") or "alone"
        item.user_properties.append(("escape", [_attempt(item), str(variant)]))
    if away:
        config.hook.pytest_deselected(items=away)
        items[:] = kept


def _why_not(item: pytest.Item) -> str:
    """Why a test cannot run here; empty when it can."""
    if platform.system() != "Linux":
        return "Linux only"
    params: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
    variant = params.get("variant")
    user = variant.user if variant else params.get("user", "root" if os.geteuid() == 0 else "ordinary")
    if variant and variant.missing:
        return str(variant.missing)
    if why := hosts.users()[user]:
        return why
    if item.get_closest_marker("any_user") and (user == "root") != (os.geteuid() == 0):
        return "made once"
    if item.get_closest_marker("needs_root") and os.geteuid() != 0:
        return "the tests do not run as root"
    if item.get_closest_marker("needs_cgroup") and not hosts.layers(user).get("cgroup"):
        return "no control group"
    lacking = [one for mark in item.iter_markers("layers") for one in mark.args if not hosts.layers(user).get(one)]
    return f"does not work here: {', '.join(lacking)}" if lacking else ""


def _attempt(item: pytest.Item) -> str:
    """The attempt's name: the same for every tier and user that it is made in."""
    params = dict(item.callspec.params) if hasattr(item, "callspec") else {}
    name = item.nodeid
    for key in ("variant", "user"):
        if key in params:
            for form in (f"{params[key]}-", f"-{params[key]}", f"[{params[key]}]"):
                name = name.replace(form, "")
    return name


def pytest_terminal_summary(terminalreporter: Any) -> None:
    attempts: set[str] = set()
    ran: dict[str, int] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            made = dict(getattr(report, "user_properties", [])).get("escape")
            if made and getattr(report, "when", None) == "call":
                attempts.add(made[0])
                ran[made[1]] = ran.get(made[1], 0) + 1
    if not attempts:
        return
    tiers = ", ".join(f"{name} ({count})" for name, count in sorted(ran.items()))
    absent = [f"{variant}: {variant.missing}" for variant in VARIANTS if variant.missing]
    absent.append(
        "seatbelt: macOS only" if platform.system() != "Darwin" else "seatbelt: no attempts are written for it"
    )
    for user in ("root", "ordinary"):
        without = [] if hosts.users()[user] else [one for one, works in hosts.layers(user).items() if not works]
        absent += [f"the layer {layer} for {user}" for layer in without]
    terminalreporter.section("escapes")
    terminalreporter.line(f"escapes: {len(attempts)} attempts; tiers run: {tiers}; not run here: {'; '.join(absent)}")


def pytest_unconfigure(config: pytest.Config) -> None:
    hosts.forget_places()


# -- hosts and sessions


@pytest.fixture(scope="session")
def host_of() -> Iterator[Callable[[str], HostProcess]]:
    """The standing host of a user; a new one when the last one was brought down."""
    standing: dict[str, HostProcess] = {}

    def get(user: str) -> HostProcess:
        if user in standing and not standing[user].alive:
            standing.pop(user).close()
        if user not in standing:
            standing[user] = HostProcess(user)
        return standing[user]

    yield get
    for host in standing.values():
        host.close()


@pytest.fixture
def host(request: pytest.FixtureRequest, host_of: Callable[[str], HostProcess]) -> HostProcess:
    """The host of the user that the test is for."""
    params = request.node.callspec.params
    return host_of(params["variant"].user if "variant" in params else params["user"])


@pytest.fixture
def fresh_host(variant: Variant) -> Iterator[HostProcess]:
    """A host of the test's own, which it may bring down, or whose memory it measures."""
    host = HostProcess(variant.user, lean=True)
    yield host
    host.close()


@pytest.fixture
def open_box(host: HostProcess, variant: Variant) -> Iterator[Callable[..., Box]]:
    """Opens sessions of the tier that are closed when the test ends."""
    opened: list[Box] = []

    def open_one(**options: Any) -> Box:
        box = Box(host, variant.tier, **options)
        opened.append(box)
        return box

    yield open_one
    for box in opened:
        box.close()


@pytest.fixture
def box(open_box: Callable[..., Box]) -> Box:
    return open_box()


_standing: dict[str, Box] = {}


@pytest.fixture
def standing_box(host: HostProcess, variant: Variant) -> Box:
    """A session that many attempts share: for those that leave nothing behind when they are refused."""
    box = _standing.get(str(variant))
    if box is None or box.host is not host or not hosts.runs(box.pid):
        box = _standing[str(variant)] = Box(host, variant.tier)
    return box


# -- what an attempt is after


@dataclass(frozen=True)
class Planted:
    """Files of the host, with secrets that must not come out and must not change."""

    directory: Path
    readable: Path
    closed: Path
    tokens: tuple[str, str]

    def unharmed(self) -> bool:
        """Whether everything is as it was."""
        texts = tuple(path.read_text() for path in (self.readable, self.closed))
        modes = tuple(path.stat().st_mode & 0o7777 for path in (self.directory, self.readable, self.closed))
        names = sorted(path.name for path in self.directory.iterdir())
        return texts == self.tokens and modes == (0o777, 0o666, 0o600) and names == ["closed", "readable"]


@pytest.fixture
def planted() -> Iterator[Callable[[int], Planted]]:
    """Plants a file that everybody may read and write, and one that only the host's user may."""
    made: list[Path] = []

    def plant(uid: int) -> Planted:
        directory = Path(tempfile.mkdtemp(prefix="escapes-planted-", dir="/tmp"))
        made.append(directory)
        tokens = (secrets.token_hex(16), secrets.token_hex(16))
        readable, closed = directory / "readable", directory / "closed"
        for path, token, mode in ((readable, tokens[0], 0o666), (closed, tokens[1], 0o600)):
            path.write_text(token)
            path.chmod(mode)
            os.chown(path, uid, uid) if os.geteuid() == 0 else None
        directory.chmod(0o777)
        return Planted(directory, readable, closed, tokens)

    yield plant
    for directory in made:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def secret(planted: Callable[[int], Planted], host: HostProcess) -> Planted:
    return planted(host.uid)


@pytest.fixture
def listeners(planted: Callable[[int], Planted], host: HostProcess) -> Iterator[Listeners]:
    ears = everywhere(planted(host.uid).directory)
    yield ears
    ears.close()


@pytest.fixture
def victim(host: HostProcess) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the host's user with a secret in its environment and in its memory."""
    options = {"user": host.uid, "group": host.uid, "extra_groups": []} if os.geteuid() == 0 else {}
    python = sys.executable if host.user != "ordinary" else hosts._interpreter("ordinary")[0]
    code = "import os, sys; kept = os.environ['SECRET'] * 2; print('up', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [python, "-I", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"SECRET": secrets.token_hex(16)},
        cwd="/",
        **options,  # type: ignore[call-overload]
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    yield process
    process.kill()
    process.communicate()


@pytest.fixture(scope="session")
def user(request: pytest.FixtureRequest) -> str:
    """Who the host runs as, where no tier is asked for."""
    return str(request.param)
