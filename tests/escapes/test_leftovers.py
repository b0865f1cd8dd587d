"""What is left when it is over: processes, directories, groups, mounts, sockets, descriptors, shared memory."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import pytest

from .hosts import Box, HostProcess, children, end, eventually, goes_on, open_files, runs


def _groups(zygote: int) -> list[Path]:
    """The control groups that a fork server has made, wherever the hierarchy is mounted."""
    found = []
    for top, names, _ in os.walk("/sys/fs/cgroup"):
        found += [Path(top, name) for name in names if name.startswith(f"rlm-{zygote}-")]
    return found


def _scratches(pids: list[int]) -> list[Path]:
    """The scratch directories on the host's disk that processes work in."""
    found = []
    for pid in pids:
        try:
            place = os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            continue
        if "rlm-scratch-" in place:
            found.append(Path(place))
    return found


def _sockets() -> set[str]:
    return {line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if "/rlm-" in line}


@pytest.fixture
def seen(fresh_host: HostProcess, variant) -> Iterator[dict]:
    """A host with two sessions at work, and everything of theirs that can be seen."""
    shm, mounts = set(os.listdir("/dev/shm")), Path("/proc/self/mounts").read_text()
    boxes = [Box(fresh_host, variant.tier, shared={"large": "x" * 300_000}) for _ in range(2)]
    for box in boxes:
        box.run(
            "import os, subprocess, sys, tempfile, threading\n"
            "open('file', 'w').write('x' * 100_000)\nos.mkdir('directory')\nopen('directory/file', 'w').write('x')\n"
            "os.symlink('/etc', 'link')\n"
            "kept = tempfile.NamedTemporaryFile(delete=False)\n"
            "try:\n"
            "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=1)\n"
            "except OSError:\n    pass\n"
            "threading.Thread(target=lambda: threading.Event().wait()).start()\n"
            "try:\n    from multiprocessing import shared_memory\n"
            "    shared_memory.SharedMemory('escaped', create=True, size=99)\n"
            "except Exception:\n    pass\n"
        )
    fresh_host.ask("wait_ready", isolation=variant.tier)
    zygote = fresh_host.ask("zygote")
    processes = children(fresh_host.process.pid)
    assert zygote in processes
    assert all(box.pid in processes for box in boxes)
    yield {
        "boxes": boxes,
        "zygote": zygote,
        "processes": processes,
        "scratches": _scratches(processes),
        "shm": shm,
        "mounts": mounts,
    }
    for pid in processes:
        assert not runs(pid), "the host has ended and a process of its is left"


def _all_gone(seen: dict) -> None:
    assert eventually(lambda: not any(runs(pid) for pid in seen["processes"]))
    assert eventually(lambda: not any(path.exists() for path in seen["scratches"])), "scratch directories are left"
    assert eventually(lambda: not _groups(seen["zygote"]), 3), "control groups are left"
    assert set(os.listdir("/dev/shm")) <= seen["shm"]
    assert Path("/proc/self/mounts").read_text() == seen["mounts"]


def test_after_everything_is_closed(fresh_host, seen):
    for box in seen["boxes"]:
        box.close()
    fresh_host.ask("close_pool")
    _all_gone(seen)
    fresh_host.close()


def test_after_the_host_ends_without_closing(fresh_host, seen):
    fresh_host.close()
    _all_gone(seen)


def test_after_the_host_is_killed(fresh_host, seen):
    fresh_host.kill()
    _all_gone(seen)


def test_after_the_host_is_killed_by_its_terminal(fresh_host, seen):
    os.kill(fresh_host.process.pid, signal.SIGHUP)
    fresh_host.process.wait(10)
    _all_gone(seen)


def test_after_the_fork_server_is_killed(fresh_host, seen, variant):
    end(seen["zygote"])
    assert eventually(lambda: not any(runs(pid) for pid in seen["processes"]))
    again = Box(fresh_host, variant.tier)
    assert again.run("1 + 1").value == "2"
    for box in seen["boxes"]:
        box.close()
    fresh_host.close()
    _all_gone(seen)


def test_after_a_kernel_is_killed_from_outside(fresh_host, seen, variant):
    box = seen["boxes"][0]
    below = [box.pid, *children(box.pid)]
    scratches = _scratches([box.pid])
    end(box.pid)
    assert eventually(lambda: not any(runs(pid) for pid in below))
    assert eventually(lambda: not any(path.exists() for path in scratches))
    assert seen["boxes"][1].run("1 + 1").value == "2"
    fresh_host.close()


_DEATHS = {
    "exits": "import os\nos._exit(0)",
    "is-killed": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\nimport ctypes\nctypes.string_at(0)",
    "crashes": "import ctypes\nctypes.string_at(0)",
    "aborts": "import os\nos.abort()",
    "runs-another-program": "import os\nos.execv('/bin/sleep', ['sleep', '600'])",
    "leaves-children-behind": (
        "import os\nfor _ in range(4):\n    try:\n        if os.fork() == 0:\n"
        "            os.setsid()\n            os.execv('/bin/sleep', ['sleep', '600'])\n"
        "    except OSError:\n        pass\nos._exit(0)"
    ),
}


@pytest.mark.parametrize("death", _DEATHS)
def test_after_a_kernel_ends_by_itself(open_box, host, death):
    box = open_box(limits={"cell_seconds": 2.0})
    box.run("open('file', 'w').write('x')")
    box.start(_DEATHS[death])
    below = {box.pid}
    while not host.answered:
        below |= set(children(box.pid))
    box.finish()
    box.close()
    assert eventually(lambda: not any(runs(pid) for pid in below))
    assert eventually(lambda: box.scratch is None or not Path(box.scratch).exists())


_TREES = {
    "a-directory-nobody-can-list": "os.umask(0)\nos.mkdir('d', 0o300)\nopen('d/f', 'w').write('x')",
    "a-directory-nobody-can-enter": "os.mkdir('d', 0)",
    "a-file-nobody-can-read": "os.close(os.open('f', os.O_CREAT | os.O_WRONLY, 0))",
    "a-read-only-directory": (
        "os.mkdir('d')\nopen('d/f', 'w').write('x')\ntry: os.chmod('d', 0o500)\nexcept OSError: pass"
    ),
    "names-that-are-not-text": "open(b'\\xff\\xfe\\n\\x01', 'w').write('x')\nos.mkdir(b'\\xff' * 200)",
    "a-link-to-the-host": "os.symlink('/tmp', 'link')\nos.symlink('/', 'd')",
    "a-circle-of-links": "os.symlink('b', 'a')\nos.symlink('a', 'b')",
    "deep": "for _ in range(1200):\n    os.mkdir('d')\n    os.chdir('d')",
    "deep-with-long-names": "for _ in range(100):\n    os.mkdir('d' * 250)\n    os.chdir('d' * 250)",
    "many": "for i in range(1500):\n    os.mkdir(f'd{i}')",
}


@pytest.mark.parametrize("tree", _TREES)
def test_a_scratch_directory_that_is_hard_to_remove(open_box, host, secret, tree):
    box = open_box()
    box.run(f"import os\n{_TREES[tree]}")  # where it cannot even be made, so much the better
    zygote = host.ask("zygote")
    box.close()
    assert eventually(lambda: box.scratch is None or not Path(box.scratch).exists(), 5)
    assert secret.unharmed()
    assert runs(zygote), "the fork server ended"
    assert goes_on(box)


@pytest.mark.needs_root
def test_descriptors_and_threads_of_the_host_after_many_sessions(host, variant):
    def some(count: int) -> None:
        for _ in range(count):
            box = Box(host, variant.tier, functions=["length"], shared={"large": "x" * 300_000})
            assert box.run("length('abc')").value == "3"
            box.close()
        host.ask("wait_ready", isolation=variant.tier)

    some(2)
    before, threads = len(host.descriptors()), host.ask("threads")
    some(6)
    assert eventually(lambda: len(host.descriptors()) <= before + 3)
    assert host.ask("threads") <= threads + 2


@pytest.mark.needs_root
def test_descriptors_of_the_fork_server_after_many_sessions(host, variant):
    for _ in range(2):
        Box(host, variant.tier).close()
    host.ask("wait_ready", isolation=variant.tier)
    zygote = host.ask("zygote")
    before = len(open_files(zygote))
    for _ in range(6):
        Box(host, variant.tier).close()
    host.ask("wait_ready", isolation=variant.tier)
    assert eventually(lambda: len(open_files(zygote)) <= before)
    assert eventually(lambda: len(children(zygote)) < 12)


def test_no_socket_has_a_name_while_code_runs(box, host):
    """The files that the host connected by are gone before a kernel runs anything."""
    assert box.run("1").value == "1"
    here = {path for path in _sockets() if Path(path).exists()}
    mine = {target for target in here if str(host.process.pid) in target}
    assert not mine


def test_a_session_outlives_the_thread_that_opened_it(fresh_host, variant):
    """The system's signal at a parent's death means the thread, not the process."""
    box = Box(fresh_host, variant.tier, op="open_in_thread")
    assert box.run("1 + 1").value == "2"
    other = Box(fresh_host, variant.tier)
    other.run("import time; time.sleep(0.5)")
    assert box.run("2 + 2").value == "4"


_EXEC = {
    "from-the-first-thread": "os.execv('/bin/sleep', ['sleep', '600'])",
    "from-another-thread": (
        "import threading\nthreading.Thread(target=os.execv, args=('/bin/sleep', ['sleep', '600'])).start()\n"
        "threading.Event().wait()"
    ),
}


@pytest.mark.parametrize("way", _EXEC)
def test_after_the_host_and_the_fork_server_are_killed_together(fresh_host, variant, way):
    """A program that another thread than the first has started is not ended by the system with its parent."""
    box = Box(fresh_host, variant.tier)
    box.run("open('file', 'w').write('x')")
    zygote = fresh_host.ask("zygote")
    scratches = _scratches([box.pid])
    assert bool(scratches) == (variant.tier == "landlock")
    box.start(
        "import os, time\nfor number in range(256):\n"
        "    try:\n        os.set_inheritable(number, True)  # the host must not see it hang up\n"
        f"    except OSError:\n        pass\ntry:\n{indent(_EXEC[way], '    ')}\nexcept OSError:\n    time.sleep(60)"
    )
    time.sleep(0.5)
    left = [box.pid, zygote, *children(zygote)]
    os.kill(zygote, signal.SIGSTOP)  # so that neither sees the other's end
    fresh_host.kill()
    end(zygote)
    assert eventually(lambda: not any(runs(pid) for pid in left)), "a process is left"
    assert eventually(lambda: not any(path.exists() for path in scratches)), "scratch directories are left"
    assert eventually(lambda: not _groups(zygote), 3), "control groups are left"


def test_what_nobody_could_remove_is_removed_by_the_next_fork_server(fresh_host, variant):
    """Everything was killed at once, as when a machine loses its power: only files are left."""
    if variant.tier != "landlock":
        pytest.skip("the scratch directory of this tier is no directory of the host's")
    place = Path(tempfile.gettempdir())
    old, new, other = (place / f"rlm-scratch-1-{secrets.token_hex(4)}" for _ in range(3))
    for directory in (old, new, other):
        directory.mkdir(0o700)
        (directory / "file").write_text("x")
        os.chown(directory, fresh_host.uid, fresh_host.uid) if os.geteuid() == 0 else None
    for directory in (old, other):
        os.utime(directory, (time.time() - 600,) * 2)
    holder = os.open(other, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    try:
        box = Box(fresh_host, variant.tier)
        assert eventually(lambda: not old.exists())
        assert new.exists(), "somebody may be about to use it"
        assert other.exists(), "somebody uses it"
        mine = _scratches([box.pid])
        assert mine
        assert all(path.exists() for path in mine)
    finally:
        os.close(holder)
        for directory in (new, other):
            shutil.rmtree(directory)
