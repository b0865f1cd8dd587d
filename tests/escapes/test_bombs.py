"""Bombs: as much as possible of everything that a machine runs out of."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .hosts import Box, Ended, children, eventually, goes_on, open_files, runs, threads

MB = 1 << 20


def watch(box: Box, code: str, look: Callable[[], int], *, timeout: float = 2.0) -> tuple[Ended, int]:
    """Run a cell; how it ended, and the most that was seen from outside while it ran."""
    box.start(code, timeout=timeout)
    most, end = 0, time.monotonic() + timeout + 0.5
    while time.monotonic() < end and runs(box.pid) and not box.host.answered:
        most = max(most, look())
        time.sleep(0.02)
    return box.finish(30), most


def memory_together(pid: int) -> int:
    """What a kernel and everything that it started have in memory for themselves."""
    total = 0
    for one in (pid, *children(pid)):
        try:
            text = Path(f"/proc/{one}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        fields = dict(line.split(":", 1) for line in text.splitlines()[1:])
        total += sum(int(fields[name].split()[0]) for name in ("Private_Dirty", "Private_Clean")) * 1024
    return total


def _population(pid: int) -> int:
    return sum(threads(one) for one in (pid, *children(pid)))


# -- processes and threads

_FORKS = {
    "fork": "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n",
    "fork-that-ignores-signals": (
        "import os, signal\n"
        "for number in range(1, 64):\n"
        "    try:\n        signal.signal(number, signal.SIG_IGN)\n    except (OSError, ValueError):\n        pass\n"
        "while True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
    ),
    "sessions-and-orphans": (
        "import os\n"
        "while True:\n"
        "    try:\n"
        "        if os.fork() == 0:\n"
        "            os.setsid()\n"
        "            if os.fork():\n"
        "                os._exit(0)\n"
        "    except OSError:\n        pass\n"
    ),
    "programs": (
        "import subprocess\nkept = []\nwhile True:\n"
        "    try:\n        kept.append(subprocess.Popen(['/bin/sleep', '60']))\n    except OSError:\n        pass\n"
    ),
    "vfork-by-number": (
        "import ctypes\nc = ctypes.CDLL(None)\nwhile True:\n    c.syscall(57) if c.syscall(39) else None\n"
    ),
}


@pytest.mark.parametrize("bomb", _FORKS)
def test_a_fork_bomb(open_box, host, bomb):
    box = open_box(limits={"processes": 12, "cell_seconds": 0.5})
    _, most = watch(box, _FORKS[bomb], lambda: _population(box.pid))
    assert most <= 12 + 4
    descendants = children(box.pid)
    box.close()
    assert eventually(lambda: not any(runs(one) for one in (box.pid, *descendants)))
    assert goes_on(box)


def test_a_thread_bomb(open_box):
    box = open_box(limits={"processes": 12, "cell_seconds": 2.0})
    ended, most = watch(
        box,
        "import threading, time\n"
        "threading.stack_size(32768)\n"
        "started = 0\n"
        "while started < 3000:\n"
        "    try:\n"
        "        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "        started += 1\n"
        "    except (RuntimeError, MemoryError):\n"
        "        break\n"
        "time.sleep(0.3)\n"
        'raise RuntimeError("can\'t start new thread")',
        lambda: _population(box.pid),
    )
    assert most <= 12 + 4, ended.text


def test_the_limit_of_a_thread_bomb_is_named(open_box):
    box = open_box(limits={"processes": 12, "cell_seconds": 5.0})
    ended = box.run(
        "import threading, time\nfor _ in range(3000):\n"
        "    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    )
    assert ended.limit in ("ProcessLimit", "MemoryLimit")


# -- memory

_MEMORY = {
    "one-large-object": "x = bytearray(2 << 30)",
    "many-objects": "x = []\nwhile True:\n    x.append('x' * 100_000 + str(len(x)))",
    "a-string-that-doubles": "x = 'x'\nwhile True:\n    x += x",
    "a-large-integer": "x = 1 << (1 << 34)",
    "memory-maps": (
        "import mmap\nx = []\nwhile True:\n    m = mmap.mmap(-1, 8 << 20)\n    m.write(bytes(8 << 20))\n    x.append(m)"
    ),
    "nested-lists": "x = []\nwhile True:\n    x = [x, x]",
    "c-library": (
        "import ctypes\nc = ctypes.CDLL(None)\nc.malloc.restype = ctypes.c_void_p\n"
        "while (p := c.malloc(ctypes.c_size_t(1 << 22))):\n    ctypes.memset(p, 1, 1 << 22)\nraise MemoryError"
    ),
    "a-regular-expression": "import re\nre.compile('(?:' * 90 + 'a' + '){1,9999}' * 90)",
    "threads-that-allocate": (
        "import threading\ndef grow():\n    x = []\n    while True:\n        x.append(bytearray(1 << 20))\n"
        "ts = [threading.Thread(target=grow) for _ in range(4)]\nfor t in ts: t.start()\nfor t in ts: t.join()"
    ),
}


@pytest.mark.any_user
@pytest.mark.needs_root
@pytest.mark.parametrize("bomb", _MEMORY)
def test_a_memory_bomb(open_box, host, bomb):
    box = open_box(limits={"memory_bytes": 96 * MB, "cell_seconds": 3.0})
    _, most = watch(box, _MEMORY[bomb], lambda: memory_together(box.pid), timeout=4.0)
    assert most < 96 * MB + 128 * MB
    assert host.alive


@pytest.mark.needs_root
def test_memory_of_many_processes_together(open_box, host):
    """Each within its own limit."""
    box = open_box(limits={"memory_bytes": 96 * MB, "file_bytes": 16 * MB, "processes": 16, "cell_seconds": 3.0})
    _, most = watch(
        box,
        "import os, time\n"
        "for _ in range(12):\n"
        "    try:\n        child = os.fork()\n    except OSError:\n        break\n"
        "    if child == 0:\n"
        "        x = []\n"
        "        try:\n"
        "            while True:\n                x.append(bytearray(b'x' * (1 << 20)))\n"
        "        except MemoryError:\n            time.sleep(60)\n"
        "time.sleep(60)",
        lambda: memory_together(box.pid),
        timeout=1.5,
    )
    assert most < (96 + 16 + 128 + 32) * MB


@pytest.mark.needs_root
def test_memory_in_pipes_and_sockets(open_box):
    """Buffers belong to the system, not to the process."""
    box = open_box(limits={"memory_bytes": 96 * MB, "cell_seconds": 3.0})
    ended = box.run(
        "import fcntl, os, socket\n"
        "total, kept = 0, []\n"
        "try:\n"
        "    while True:\n"
        "        pair = socket.socketpair()\n"
        "        kept.append(pair)\n"
        "        pair[0].setblocking(False)\n"
        "        try:\n            pair[0].setsockopt(1, 7, 1 << 30)\n        except OSError:\n            pass\n"
        "        try:\n"
        "            while True:\n                total += pair[0].send(bytes(65536))\n"
        "        except BlockingIOError:\n            pass\n"
        "except OSError:\n"
        "    pass\n"
        "print(total)"
    )
    assert ended.limit or int(ended.text or 0) < 256 * MB


# -- disk


def _disk(box: Box) -> int:
    """The bytes that a kernel holds on the host's disk, in files with and without a name."""
    seen = {}
    if box.scratch is not None:
        for top, _, names in os.walk(box.scratch):
            for name in names:
                try:
                    stat = os.lstat(f"{top}/{name}")
                except OSError:
                    continue
                seen[stat.st_ino] = stat.st_blocks * 512
        try:
            opened = open_files(box.pid)
        except (FileNotFoundError, ProcessLookupError):  # it has just been ended
            opened = {}
        for name, target in opened.items():
            if target.startswith(box.scratch):
                try:
                    stat = os.stat(f"/proc/{box.pid}/fd/{name}")
                except OSError:
                    continue
                seen[stat.st_ino] = stat.st_blocks * 512
    return sum(seen.values())


_DISK = {
    "one-file": "f = open('big', 'wb')\nwhile True:\n    f.write(bytes(1 << 20))",
    "many-files": "import itertools\nfor i in itertools.count():\n    open(f'f{i}', 'wb').write(bytes(1 << 20))",
    "allocated-not-written": (
        "import os, itertools\nfor i in itertools.count():\n"
        "    os.posix_fallocate(os.open(f'f{i}', os.O_CREAT | os.O_WRONLY), 0, 4 << 20)"
    ),
    "removed-but-open": (
        "import os, time\nfor i in range(200):\n    f = os.open(f'f{i}', os.O_CREAT | os.O_WRONLY)\n"
        "    os.unlink(f'f{i}')\n    for _ in range(4): os.write(f, bytes(1 << 20))\ntime.sleep(60)"
    ),
    "deep-below": (
        "import os, itertools\n"
        "for _ in range(40):\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)\n"
        "for i in itertools.count():\n    open(f'f{i}', 'wb').write(bytes(1 << 20))"
    ),
    "in-a-directory-nobody-can-list": (
        "import os, itertools\nos.umask(0)\nos.mkdir('hidden', 0o300)\n"
        "for i in itertools.count():\n    open(f'hidden/f{i}', 'wb').write(bytes(1 << 20))"
    ),
    "files-that-never-had-a-name": (
        "import os, time\nkept = []\nfor _ in range(200):\n    kept.append(os.open('.', os.O_TMPFILE | os.O_RDWR))\n"
        "    for _ in range(4): os.write(kept[-1], bytes(1 << 20))\ntime.sleep(60)"
    ),
    "temporary-files": (
        "import tempfile\nkept = []\nwhile True:\n    f = tempfile.TemporaryFile()\n    f.write(bytes(1 << 20))\n"
        "    f.flush()\n    kept.append(f)"
    ),
}


def written_in_a_second(folder: Path) -> int:
    """How many bytes this machine writes in a second, by such a loop."""
    began, count = time.monotonic(), 0
    while (took := time.monotonic() - began) < 0.3:
        (folder / f"f{count % 50}").write_bytes(bytes(MB))
        count += 1
    return int(count * MB / took)


_HIDDEN = ["removed-but-open", "deep-below", "in-a-directory-nobody-can-list", "files-that-never-had-a-name"]


@pytest.mark.needs_root
@pytest.mark.parametrize("bomb", _DISK)
def test_a_disk_bomb(open_box, host, bomb, tmp_path):
    box = open_box(limits={"file_bytes": 8 * MB, "cell_seconds": 3.0})
    ended, most = watch(box, _DISK[bomb], lambda: _disk(box), timeout=3.0)
    # The host looks a few times a second; what is written between two looks is not prevented.
    assert most < max(300 * MB, written_in_a_second(tmp_path))
    assert ended.error is not None
    box.close()
    assert eventually(lambda: box.scratch is None or not Path(box.scratch).exists())


@pytest.mark.needs_root
@pytest.mark.parametrize("bomb", _HIDDEN)
def test_a_hidden_disk_bomb_is_found(open_box, host, bomb):
    """Files that a look at the scratch directory does not show count as well, or cannot be made."""
    box = open_box(limits={"file_bytes": 4 * MB, "cell_seconds": 10.0})
    ended, most = watch(box, _DISK[bomb], lambda: _disk(box), timeout=3.0)
    assert ended.limit == "FileLimit" or (ended.error in ("PermissionError", "OSError") and most <= 4 * MB)


@pytest.mark.needs_root
def test_a_disk_bomb_between_two_cells(open_box):
    """Nobody looks while no cell runs."""
    box, other = open_box(limits={"file_bytes": 4 * MB}), open_box()
    box.run(
        "import threading, time, itertools\n"
        "def fill():\n"
        "    time.sleep(0.2)\n"
        "    for i in itertools.count():\n"
        "        try:\n            open(f'f{i}', 'wb').write(bytes(1 << 20))\n"
        "        except OSError:\n            pass\n"
        "        time.sleep(0.01)\n"
        "threading.Thread(target=fill, daemon=True).start()"
    )
    other.run("import time; time.sleep(1.2)")
    assert _disk(box) < 64 * MB


_INODES = {
    "empty-files": "import itertools\nfor i in itertools.count():\n    open(f'f{i}', 'w').close()",
    "directories": "import itertools, os\nfor i in itertools.count():\n    os.mkdir(f'd{i}')",
    "symlinks": "import itertools, os\nfor i in itertools.count():\n    os.symlink('nowhere', f's{i}')",
    "hard-links": (
        "import itertools, os\nopen('f', 'w').close()\nfor i in itertools.count():\n    os.link('f', f'l{i}')"
    ),
    "deep-below": (
        "import itertools, os\nfor _ in range(40):\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)\n"
        "for i in itertools.count():\n    open(f'f{i}', 'w').close()"
    ),
}


@pytest.mark.parametrize("bomb", _INODES)
def test_an_inode_bomb(open_box, host, bomb):
    box = open_box(limits={"file_count": 300, "cell_seconds": 10.0})
    ended = box.run(_INODES[bomb], timeout=3.0)
    assert ended.limit == "FileLimit" or ended.error == "PermissionError"
    # Links are made quickly: unwatched, there would be far more at the end of the cell.
    assert box.scratch is None or not Path(box.scratch).exists() or len(os.listdir(box.scratch)) < 30_000
    box.close()
    assert eventually(lambda: box.scratch is None or not Path(box.scratch).exists())


def test_directories_that_are_deeper_than_anyone_can_walk(open_box, host):
    """Removing them must not bring down the fork server, and with it everybody else's session."""
    neighbour = open_box()
    box = open_box()
    box.run("import os\nfor _ in range(1500):\n    os.mkdir('d')\n    os.chdir('d')")
    box.close()
    assert eventually(lambda: box.scratch is None or not Path(box.scratch).exists())
    assert neighbour.run("1 + 1").value == "2"


# -- descriptors and the rest

_DESCRIPTORS = {
    "files": "import os\nwhile True:\n    os.open('/dev/null', 0)",
    "pipes": "import os\nwhile True:\n    os.pipe()",
    "socket-pairs": "import socket\nx = []\nwhile True:\n    x.append(socket.socketpair())",
    "epolls": "import select\nx = []\nwhile True:\n    x.append(select.epoll())",
    "timers": (
        "import ctypes\nc = ctypes.CDLL(None)\nwhile c.timerfd_create(1, 0) >= 0:\n    pass\n"
        "raise OSError(24, 'timers')"
    ),
    "sent-to-itself": (
        "import socket, os\na, b = socket.socketpair()\nf = os.open('/dev/null', 0)\n"
        "while True:\n    socket.send_fds(a, [b'x'], [f] * 50)"
    ),
}


@pytest.mark.any_user
@pytest.mark.needs_root
@pytest.mark.parametrize("bomb", _DESCRIPTORS)
def test_a_descriptor_bomb(open_box, host, bomb):
    before = int(Path("/proc/sys/fs/file-nr").read_text().split()[0])
    box = open_box(limits={"cell_seconds": 2.0})
    ended = box.run(_DESCRIPTORS[bomb])
    assert ended.error is not None
    assert len(open_files(box.pid)) <= 256 if runs(box.pid) else True
    assert int(Path("/proc/sys/fs/file-nr").read_text().split()[0]) - before < 5000
    assert host.alive


@pytest.mark.any_user
def test_a_compressed_bomb(open_box):
    box = open_box(limits={"memory_bytes": 96 * MB, "cell_seconds": 50.0})
    ended = box.run(
        "import zlib\nc = zlib.compressobj()\n"
        "data = b''.join(c.compress(bytes(1 << 20)) for _ in range(150)) + c.flush()\n"
        "len(zlib.decompress(data))"
    )
    assert ended.limit == "MemoryLimit"
    assert ended.survived


@pytest.mark.any_user
def test_an_expression_too_deep_to_compile(open_box, host):
    box = open_box(limits={"cell_seconds": 5.0})
    ended = box.run("eval('(' * 100_000)")
    assert ended.error
    assert box.run("-" * 100_000 + "1").error or not runs(box.pid)
    assert goes_on(box)


@pytest.mark.any_user
def test_recursion_without_a_limit(open_box, host):
    box = open_box(limits={"cell_seconds": 1.5})
    ended = box.run("import sys\nsys.setrecursionlimit(10**9)\ndef f():\n    return [f()]\nf()")
    assert ended.error
    assert goes_on(box)
