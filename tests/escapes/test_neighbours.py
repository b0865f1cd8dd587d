"""One session against another, and against the processes of the host's user."""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path

import pytest

from .hosts import goes_on, runs

_SIGNALS = {
    "kill": "os.kill(pid, 9)",
    "kill-the-group": "os.kill(-pid, 9)",
    "kill-everybody": "os.kill(-1, 9)",
    "kill-my-group": "os.kill(0, 9)",
    "killpg": "os.killpg(pid, 9)",
    "tgkill": "syscall(234, pid, pid, 9)",
    "tkill": "syscall(200, pid, 9)",
    "a-queued-signal": "syscall(129, pid, 9, bytes(128))",
    "pidfd": "fd = syscall(434, pid, 0); syscall(424, fd, 9, None, 0)",
    "stop": "os.kill(pid, 19)",
    "the-parent": "os.kill(os.getppid(), 9)",
    "a-limit-that-kills": "syscall(302, pid, 0, struct.pack('=QQ', 0, 0), None)",
    "its-priority": "os.setpriority(os.PRIO_PROCESS, pid, 19)",
    "its-processors": "os.sched_setaffinity(pid, [0])",
    "ptrace-attach": "syscall(101, 16, pid, 0, 0)",
    "ptrace-seize": "syscall(101, 0x4206, pid, 0, 0)",
    "write-its-memory": "syscall(311, pid, bytes(16), 1, bytes(16), 1, 0)",
    "take-its-descriptors": "fd = syscall(434, pid, 0); syscall(438, fd, 0, 0)",
}
_BEGIN = """
import ctypes, os, struct
def syscall(number, *args):
    c = ctypes.CDLL(None, use_errno=True)
    args = [ctypes.create_string_buffer(a) if isinstance(a, bytes) else ctypes.c_long(a or 0) for a in args]
    result = c.syscall(ctypes.c_long(number), *args)
    if result == -1:
        raise OSError(ctypes.get_errno(), 'refused')
    return result
"""


def _state(pid: int) -> tuple[object, ...]:
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    limits = Path(f"/proc/{pid}/limits").read_text()
    return stat[0] in "TtZX", stat[16], limits, os.sched_getaffinity(pid)


@pytest.mark.parametrize("way", _SIGNALS)
def test_harming_a_process_of_the_host(open_box, host, victim, way):
    """Of the host's user, who is the kernel's user too where no other can be taken on."""
    box = open_box(limits={"cell_seconds": 3.0})
    before = _state(victim.pid)
    zygote = host.ask("zygote")
    box.run(f"{_BEGIN}\npid = {victim.pid}\n{_SIGNALS[way]}")
    assert victim.poll() is None
    assert _state(victim.pid) == before
    assert host.alive
    assert runs(zygote)
    assert host.ask("zygote") == zygote


@pytest.mark.parametrize("way", _SIGNALS)
def test_harming_another_session(open_box, host, way):
    attacker, other = open_box(limits={"cell_seconds": 3.0}), open_box()
    other.run("kept = 5")
    before = _state(other.pid)
    attacker.run(f"{_BEGIN}\npid = {other.pid}\n{_SIGNALS[way]}")
    assert _state(other.pid) == before
    assert other.run("kept").value == "5"


_READING = {
    "its-scratch": "for place in (scratch, '/proc/%d/cwd' % pid, '/box', '/tmp', '..'):\n    walk(place)",
    "its-memory": "print(open(f'/proc/{pid}/mem', 'rb').read(10))",
    "its-memory-by-call": "syscall(310, pid, bytes(16), 1, bytes(16), 1, 0)",
    "its-descriptors": "for n in range(30):\n    attempt(lambda: print(open(f'/proc/{pid}/fd/{n}').read()))",
    "its-root": "walk(f'/proc/{pid}/root/box')",
    "every-temporary-directory": "for place in ('/tmp', '/var/tmp', '/dev/shm', '/run'):\n    walk(place)",
}
_LOOK = """
def attempt(action):
    try:
        return action()
    except Exception as error:
        print(type(error).__name__)
def walk(place):
    for top, _, names in os.walk(place):
        for name in names:
            attempt(lambda: print(top, name, open(os.path.join(top, name)).read()))
    attempt(lambda: print(open(place + '/kept').read()))
"""


@pytest.mark.parametrize("way", _READING)
def test_reading_what_another_session_holds(open_box, way):
    token = secrets.token_hex(16)
    other = open_box(inputs={"token": token})
    assert other.run("open('kept', 'w').write(token)\nimport os\nkept = token + 'x'").error is None
    attacker = open_box()
    code = f"{_BEGIN}{_LOOK}\npid, scratch = {other.pid}, {other.scratch or '/box'!r}\n{_READING[way]}"
    ended = attacker.run(code)
    assert token not in ended.everything
    assert other.run("open('kept').read() == token").value == "True"


@pytest.mark.parametrize("way", ["write", "remove", "link", "rename"])
def test_changing_the_files_of_another_session(open_box, way):
    other, attacker = open_box(), open_box()
    other.run("open('kept', 'w').write('mine')")
    place = other.scratch or "/box"
    action = {
        "write": f"open('{place}/kept', 'w').write('changed')",
        "remove": f"os.unlink('{place}/kept')",
        "link": f"os.symlink('/etc/passwd', '{place}/link')",
        "rename": f"os.rename('{place}/kept', '{place}/other')",
    }[way]
    attacker.run(f"import os\n{action}")
    listed = other.run("import os\nprint(open('kept').read(), *sorted(set(os.listdir()) - {'out'}))")
    assert listed.text == "mine kept\n"


_SHARED = {
    "through-the-view": (
        "import ctypes, gc, mmap\n"
        "maps = [o for o in gc.get_objects() if isinstance(o, mmap.mmap)] + [r for r in gc.get_referents(large._at)]\n"
        "for m in maps:\n    attempt(lambda: m.__setitem__(0, 88))\n"
    ),
    "past-the-protection": (
        "import ctypes\n"
        "buffer = memoryview(large._at.buffer)\n"
        "c = ctypes.CDLL(None, use_errno=True)\n"
        "class View(ctypes.Structure):\n"
        "    _fields_ = [('buf', ctypes.c_void_p), ('obj', ctypes.py_object), ('rest', ctypes.c_char * 200)]\n"
        "view = View()\n"
        "ctypes.pythonapi.PyObject_GetBuffer.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]\n"
        "ctypes.pythonapi.PyObject_GetBuffer(buffer, ctypes.addressof(view), 0)\n"
        "c.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]\n"
        "print('mprotect', c.mprotect(view.buf & ~4095, 4096, 3))\n"
        "attempt(lambda: ctypes.memset(view.buf, 88, 10))\n"
        "print(large[:20])\n"
    ),
    "by-descriptor": (
        "for number in range(256):\n"
        "    attempt(lambda: os.pwrite(number, b'XXXX', 0) if os.fstat(number).st_size > 1000 else None)\n"
        "    attempt(lambda: os.ftruncate(number, 0) if os.fstat(number).st_size > 1000 else None)\n"
    ),
}


@pytest.mark.parametrize("way", _SHARED)
def test_changing_a_text_that_sessions_share(open_box, host, way):
    name = f"large_{way.replace('-', '_')}"
    text = "shared " * 60_000
    attacker, other = open_box(shared={name: text}), open_box(shared={name: text})
    attacker.run(f"import os{_LOOK}\nlarge = {name}\n{_SHARED[way]}")
    assert other.run(f"{name}[:14], len({name}), 'X' in {name}").value == "('shared shared ', 420000, False)"
    assert host.ask("shared", name=name) == text
    later = open_box(shared={name: text})
    assert later.run(f"str({name}) == 'shared ' * 60_000").value == "True"


@pytest.mark.needs_root
def test_two_sessions_are_two_users_or_in_two_worlds(open_box, host, variant):
    one, other = open_box(), open_box()
    uids = {Path(f"/proc/{box.pid}/status").read_text().partition("Uid:")[2].split()[0] for box in (one, other)}
    worlds = {
        os.readlink(f"/proc/{box.pid}/ns/{kind}") for box in (one, other) for kind in ("pid", "mnt", "net", "ipc")
    }
    if variant.user == "root":
        assert len(uids) == 2
        assert "0" not in uids
    if variant.tier == "namespaces":
        assert len(worlds) == 8
        ours = {os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "mnt", "net", "ipc")}
        assert not worlds & ours


def test_a_name_in_shared_memory_is_not_shared(open_box):
    """What two sessions could agree upon to meet: neither named memory nor a lock in it."""
    one, other = open_box(), open_box()
    one.run(
        "from multiprocessing import shared_memory\n"
        "m = shared_memory.SharedMemory('escaped', create=True, size=64)\nm.buf[:5] = b'hello'"
    )
    ended = other.run(
        "from multiprocessing import shared_memory\nprint(bytes(shared_memory.SharedMemory('escaped').buf[:5]))"
    )
    assert "hello" not in ended.everything
    assert not Path("/dev/shm/escaped").exists()


def test_killing_itself_harms_nobody_else(open_box, host):
    one, other = open_box(), open_box()
    other.run("kept = 5")
    ended = one.run("import os, signal\nos.kill(os.getpid(), signal.SIGABRT)\nos.abort()")
    assert ended.death == "KernelDied"
    assert other.run("kept").value == "5"


def test_a_swarm_of_sessions_that_all_die_at_once(open_box, host):
    boxes = [open_box() for _ in range(6)]
    survivor = open_box()
    for box in boxes:
        assert box.run("import os\nos._exit(3)").death == "KernelDied"
    assert survivor.run("1 + 1").value == "2"
    assert not any(runs(box.pid) for box in boxes)
    assert goes_on(survivor)


_LOCK = """
import fcntl, os, sqlite3
taken = []
for kind in (fcntl.LOCK_EX, fcntl.LOCK_SH):
    for lock in (fcntl.flock, fcntl.lockf):
        file = os.open(os.__file__, os.O_RDONLY)
        try:
            lock(file, kind | fcntl.LOCK_NB)
            taken.append(file)
        except OSError as error:
            print(error)
"""


def test_a_lock_on_a_file_that_all_may_read(open_box):
    """It would hold up the host's own locks, and be a sign to other sessions."""
    boxes = [open_box(), open_box()]
    shared = boxes[0].run(_LOCK + "os.path.realpath(os.__file__)").value
    assert boxes[1].run(_LOCK).error is None
    path = shared.strip("'")
    with open(path, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_UN)
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(file, fcntl.LOCK_UN)


def test_a_database_in_the_scratch_directory_works_without_locks(box):
    ended = box.run(
        "import sqlite3\nwith sqlite3.connect('data.db') as db:\n"
        "    db.execute('pragma journal_mode = memory')  # a flat scratch directory removes no files\n"
        "    db.execute('create table t (x)')\n"
        "    db.execute('insert into t values (5)')\ndb.close()\n"
        "sqlite3.connect('data.db').execute('select x from t').fetchall()"
    )
    assert ended.value == "[(5,)]", ended
