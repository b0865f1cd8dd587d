"""Becoming somebody else with no way back."""

from __future__ import annotations

import os
from typing import Any

from tests.support.isolation.child_process import SESSION, attempt, run
from tests.support.isolation.marks import as_anyone, root, works

pytestmark = works("user")


def give_up() -> dict[str, Any]:
    import ctypes
    import os
    import re
    from pathlib import Path

    from sandbox.isolation import privileges

    was_root = os.geteuid() == 0
    if was_root:
        privileges.become(SESSION)
    privileges.drop_capabilities()
    privileges.no_new_privileges()
    privileges.set_dumpable(True)  # so that the status below can be read
    status = Path("/proc/self/status").read_text()
    sets = dict(re.findall(r"^Cap(\w+):\s+(\w+)$", status, re.MULTILINE))
    privileges.set_dumpable(False)
    return {
        "sets": {name: int(value, 16) for name, value in sets.items()},
        "no new": "NoNewPrivs:\t1" in status,
        "ids": [*os.getresuid(), *os.getresgid(), len(os.getgroups())],
        "back": [attempt(lambda: os.setuid(0)), attempt(lambda: os.setgid(0)), attempt(lambda: os.setgroups([0]))],
        "dumpable": ctypes.CDLL(None).prctl(3, 0, 0, 0, 0),
        "memory": attempt(lambda: open("/proc/self/mem", "rb").close()),
        "was root": was_root,
    }


@as_anyone
def test_nothing_is_left_and_there_is_no_way_back(ordinary: bool) -> None:
    after = run(give_up, ordinary=ordinary)
    held = {name: value for name, value in after["sets"].items() if name != "Bnd"}
    assert set(held.values()) == {0}
    if after["was root"]:
        assert after["sets"]["Bnd"] == 0
        assert after["ids"] == [SESSION] * 6 + [0]
    assert after["no new"]
    assert set(after["back"]) == {"EPERM"}
    assert after["dumpable"] == 0
    assert after["memory"] == "EACCES"


def keep_one() -> list[Any]:
    import os
    import re
    from pathlib import Path

    from sandbox.isolation import privileges

    privileges.become(SESSION)
    unreachable = privileges.unreachable(["/root", "/usr", "/nowhere"])
    privileges.drop_capabilities(frozenset({privileges.CAP_DAC_READ_SEARCH}))
    privileges.set_dumpable(True)
    status = Path("/proc/self/status").read_text()
    sets = dict(re.findall(r"^Cap(\w+):\s+(\w+)$", status, re.MULTILINE))
    return [list(unreachable), sets, attempt(lambda: os.listdir("/root")), attempt(lambda: os.mkdir("/root/rlm-test"))]


@root
def test_the_right_to_walk_through_closed_directories_can_be_kept() -> None:
    if os.stat("/root").st_mode & 0o007:
        return  # open to all here
    unreachable, sets, listing, writing = run(keep_one)
    assert unreachable == ["/root"]
    assert {name: int(value, 16) for name, value in sets.items()} == {"Inh": 0, "Prm": 4, "Eff": 4, "Bnd": 0, "Amb": 0}
    assert listing == "ok"
    assert writing == "EACCES"


def orphan() -> bool:
    """A child that asked to die with its parent does; a grandchild is handed to the process that adopts orphans."""
    import os
    import signal
    import time

    from sandbox.isolation import privileges

    privileges.adopt_orphans()
    reading, writing = os.pipe()
    middle = os.fork()
    if middle == 0:
        pid = os.fork()
        if pid == 0:
            privileges.die_with_parent()
            os.write(writing, str(os.getpid()).encode())
            time.sleep(60)
            os._exit(0)
        time.sleep(60)
    child = int(os.read(reading, 32))
    os.kill(middle, signal.SIGKILL)
    statuses = dict(os.wait() for _ in range(2))
    return set(statuses) == {middle, child} and os.waitstatus_to_exitcode(statuses[child]) == -signal.SIGKILL


def test_a_child_dies_with_its_parent_and_orphans_are_adopted() -> None:
    assert run(orphan) is True


def become_without_the_right() -> list[str]:
    from sandbox.isolation import privileges

    try:
        privileges.become(SESSION)
    except OSError as error:
        return [type(error).__name__, str(error)]
    return []


@root
def test_an_error_names_the_step() -> None:
    kind, message = run(become_without_the_right, ordinary=True)
    assert kind == "PermissionError"
    assert f"user: become {SESSION}" in message
