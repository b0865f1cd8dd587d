"""Each layer of the operating system by itself: what it says it covers, with all the others absent.

The first tests are made without any layer: there the same attempts succeed, so that it is known that they are real.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from .hosts import Box, children, end, eventually, runs, threads
from .test_bombs import memory_together, watch

MB = 1 << 20
pytestmark = pytest.mark.usefixtures("user")


@pytest.fixture
def layered(host):
    """Opens sessions under exactly these layers."""
    opened = []

    def open_one(*layers: str, **options) -> Box:
        opened.append(Box(host, list(layers), **options))
        return opened[-1]

    yield open_one
    for box in opened:
        box.close()


_CONNECT = "import socket\ns = socket.socket({family}, {kind})\ns.settimeout(2)\ns.connect({address!r})\ns.send(b'x')\n"


def _calls(listeners, name: str) -> str:
    kinds = {"tcp": (2, 1), "udp": (2, 2), "unix": (1, 1), "abstract": (1, 1), "abstract-datagrams": (1, 2)}
    family, kind = kinds[name]
    return _CONNECT.format(family=family, kind=kind, address=listeners.addresses[name])


# -- without a layer: the attempts are real


def test_without_a_layer_files_are_read_and_changed(layered, host, secret):
    box = layered("rlimits")
    ended = box.run(f"print(open({str(secret.readable)!r}).read(), open({str(secret.closed)!r}).read())")
    assert all(token in ended.text for token in secret.tokens)
    box.run(f"open({str(secret.readable)!r}, 'w').write('changed')")
    assert not secret.unharmed()


@pytest.mark.parametrize("name", ["tcp", "udp", "unix", "abstract"])
def test_without_a_layer_listeners_are_reached(layered, listeners, name):
    layered("rlimits").run(_calls(listeners, name))
    assert [heard.partition(":")[0] for heard in listeners.collect()] == [name]


def test_without_a_layer_processes_are_killed(layered, victim):
    layered("rlimits").run(f"import os\nos.kill({victim.pid}, 9)")
    assert victim.wait(5) == -9


def test_without_a_layer_memory_files_and_processes_are_made(layered):
    ended = layered("rlimits").run("import os\nos.memfd_create('x')\npid = os.fork()\nif not pid: os._exit(0)\n'made'")
    assert ended.value == "'made'"


# -- landlock


@pytest.mark.layers("landlock")
@pytest.mark.parametrize(
    "way",
    [
        "open(path).read()",
        "open(path, 'w').write('x')",
        "os.unlink(path)",
        "os.truncate(path, 0)",
        "os.rename(path, path + '2')",
        "os.link(path, 'l')",
        "os.mkdir(path + '2')",
        "os.symlink('x', path + '2')",
        "os.mkfifo(path + '2')",
        "os.listdir(os.path.dirname(path))",
    ],
)
def test_landlock_alone_keeps_files(layered, secret, way):
    box = layered("landlock")
    for path in (secret.readable, secret.closed):
        ended = box.run(f"import os\npath = {str(path)!r}\nprint({way})")
        assert ended.error in ("PermissionError", "OSError")
        assert ended.text == ""
    assert secret.unharmed()


@pytest.mark.layers("landlock")
@pytest.mark.parametrize("name", ["tcp", "abstract", "abstract-datagrams"])
def test_landlock_alone_keeps_sockets(layered, listeners, name):
    """TCP since version 4, abstract sockets since version 6 of Landlock."""
    layered("landlock").run(_calls(listeners, name))
    assert listeners.collect() == [] or _landlock_version() < (4 if name == "tcp" else 6)


@pytest.mark.layers("landlock")
def test_landlock_alone_keeps_signals(layered, victim):
    layered("landlock").run(f"import os\nos.kill({victim.pid}, 9)")
    time.sleep(0.05)
    assert victim.poll() is None or _landlock_version() < 6


@pytest.mark.layers("landlock")
def test_landlock_alone_lets_nothing_run_that_was_written(layered):
    ended = layered("landlock").run(
        "import os, shutil, subprocess\nshutil.copy('/bin/true', 'mine')\nos.chmod('mine', 0o755)\n"
        "subprocess.run(['./mine'])"
    )
    assert ended.error == "PermissionError"


@pytest.mark.layers("landlock")
def test_landlock_alone_holds_children_too(layered, secret):
    ended = layered("landlock").run(
        f"import subprocess\nprint(subprocess.run(['/bin/cat', {str(secret.readable)!r}], capture_output=True))"
    )
    assert not any(token in ended.everything for token in secret.tokens)


def _landlock_version() -> int:
    from sandbox.isolation import landlock

    return landlock.abi()


# -- seccomp

_REFUSED_CALLS = {
    "memfd_create": "os.memfd_create('x')",
    "unshare": "syscall(272, 97, 0x10000000)",
    "mount": "syscall(165, 40, 0, 0, 0, 0, 0)",
    "ptrace": "syscall(101, 117, 0, 0, 0, 0)",
    "bpf": "syscall(321, 280, 0, 0, 0)",
    "io_uring_setup": "syscall(425, 425, 1, 0)",
    "keyctl": "syscall(250, 219, 0, 0xfffffffd, 1)",
    "userfaultfd": "syscall(323, 282, 1)",
    "perf_event_open": "syscall(298, 241, 0, 0, 0, 0, 0)",
    "shmget": "syscall(29, 194, 0x5ec4e7, 4096, 0o1600)",
    "a-socket": "__import__('socket').socket()",
    "a-unix-socket": "__import__('socket').socket(1)",
    "fork": "os.fork() or os._exit(0)",
    "a-program": "__import__('subprocess').run(['/bin/true'])",
    "chmod": "os.chmod('.', 0o777)",
    "chown": "os.chown('.', os.getuid(), -1)",
    "set-times": "os.utime('.')",
    "setuid": "os.setuid(0)",
    "open_by_handle": "syscall(304, 265, 0, 0, 0)",
    "become-traceable": "syscall(157, 167, 4, 1, 0, 0, 0)",
}


@pytest.mark.layers("seccomp")
@pytest.mark.parametrize("call", _REFUSED_CALLS)
def test_seccomp_alone_refuses(layered, call):
    ended = layered("seccomp").run(
        "import ctypes, os, platform\n"
        "def syscall(x86_64, aarch64, *args):\n"
        "    c = ctypes.CDLL(None, use_errno=True)\n"
        "    number = x86_64 if platform.machine() == 'x86_64' else aarch64\n"
        "    if c.syscall(ctypes.c_long(number), *map(ctypes.c_long, args)) == -1:\n"
        "        raise OSError(ctypes.get_errno(), 'refused')\n"
        f"try:\n    {_REFUSED_CALLS[call]}\n    print('done')\n"
        "except OSError as error:\n    print(error.errno)"
    )
    assert ended.text.strip() in ("1", "38", "97"), ended  # EPERM, ENOSYS, EAFNOSUPPORT


@pytest.mark.layers("seccomp")
@pytest.mark.parametrize("name", ["tcp", "udp", "unix", "abstract"])
def test_seccomp_alone_keeps_sockets(layered, listeners, name):
    layered("seccomp").run(_calls(listeners, name))
    assert listeners.collect() == []


@pytest.mark.layers("seccomp")
def test_seccomp_alone_keeps_signals(layered, victim):
    box = layered("seccomp")
    for way in ("os.kill(pid, 9)", "os.kill(-1, 15)", "os.killpg(pid, 9)"):
        box.run(f"import os\npid = {victim.pid}\n{way}")
    assert victim.poll() is None


# -- namespaces


@pytest.mark.layers("namespaces")
def test_namespaces_alone_hide_files(layered, secret):
    box = layered("namespaces")
    for path in (secret.readable, secret.closed, Path("/etc/passwd"), Path("/proc/self/environ"), Path("/sys/kernel")):
        ended = box.run(f"import os\nos.stat({str(path)!r})")
        assert ended.error == "FileNotFoundError"


@pytest.mark.layers("namespaces")
@pytest.mark.parametrize("name", ["tcp", "udp", "unix", "abstract", "abstract-datagrams"])
def test_namespaces_alone_hide_the_network(layered, listeners, name):
    layered("namespaces").run(_calls(listeners, name))
    assert listeners.collect() == []


@pytest.mark.layers("namespaces")
def test_namespaces_alone_hide_processes(layered, victim, host):
    box = layered("namespaces")
    for way in (f"os.kill({victim.pid}, 9)", f"os.kill({host.process.pid}, 15)", "os.kill(-1, 15)"):
        box.run(f"import os\n{way}")
    assert victim.poll() is None
    assert host.alive


@pytest.mark.layers("namespaces")
def test_namespaces_alone_end_all_processes_together(layered):
    box = layered("namespaces")
    box.run(
        "import os, signal, time\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0:\n        os.setsid()\n        signal.signal(15, signal.SIG_IGN)\n"
        "        time.sleep(600)\n"
    )
    below = children(box.pid)
    assert len(below) >= 3
    box.close()
    assert eventually(lambda: not any(runs(pid) for pid in (box.pid, *below)))


@pytest.mark.layers("namespaces")
@pytest.mark.parametrize("what", ["bytes", "files"])
def test_namespaces_alone_limit_the_scratch(layered, what):
    box = layered("namespaces", limits={"file_bytes": 4 * MB, "file_count": 100})
    code = {
        "bytes": "for i in range(50):\n    open(f'/box/f{i % 2}', 'ab').write(bytes(1 << 20))",
        "files": "for i in range(300):\n    open(f'/tmp/f{i}', 'w').close()",
    }[what]
    assert box.run(code).limit == "FileLimit"


@pytest.mark.layers("namespaces")
def test_namespaces_alone_have_a_root_that_cannot_be_written(layered):
    ended = layered("namespaces").run(
        "import os\nfor place in ('/', '/usr', '/dev', os.path.dirname(os.__file__)):\n"
        "    try:\n        open(place + '/escaped', 'w').close()\n        print('wrote', place)\n"
        "    except OSError:\n        pass"
    )
    assert ended.text == ""
    assert not Path(os.path.dirname(os.__file__), "escaped").exists()


@pytest.mark.layers("namespaces")
def test_namespaces_alone_have_their_own_name_and_queues(layered):
    box = layered("namespaces")
    box.run(
        "import ctypes\nc = ctypes.CDLL(None)\nc.sethostname(b'escaped', 7)\nc.shmget(0x5ec4e7, 4096, 0o1666)\n"
        "c.semget(0x5ec4e7, 1, 0o1666)\nc.msgget(0x5ec4e7, 0o1666)"
    )
    assert socket.gethostname() != "escaped"
    for table in ("shm", "sem", "msg"):
        assert str(0x5EC4E7) not in Path(f"/proc/sysvipc/{table}").read_text()


# -- user


def _only_as_root(user: str) -> bool:
    """An ordinary user cannot become another: the layer then only says that there is no way up."""
    return user == "root"


@pytest.mark.layers("user")
def test_user_alone_keeps_closed_files(layered, secret, user):
    ended = layered("user").run(f"print(open({str(secret.closed)!r}).read())")
    assert (secret.tokens[1] not in ended.everything) == _only_as_root(user)


@pytest.mark.layers("user")
def test_user_alone_keeps_processes(layered, victim, user):
    layered("user").run(f"import os\nos.kill({victim.pid}, 9)")
    time.sleep(0.05)
    assert (victim.poll() is None) == _only_as_root(user)


@pytest.mark.layers("user")
@pytest.mark.parametrize(
    "way",
    [
        "os.setuid(0)",
        "os.setgid(0)",
        "os.setgroups([0])",
        "os.chroot('/')",
        "os.nice(-5)",
        "os.mknod('d', 0o60600, 0x800)",
        "os.chown('.', 0, 0)",
        "os.setresuid(0, 0, 0)",
    ],
)
def test_user_alone_has_no_way_up(layered, way):
    assert layered("user").run(f"import os\n{way}").error == "PermissionError"


@pytest.mark.layers("user")
def test_user_alone_gives_set_uid_programs_nothing(layered, host, user):
    """`no_new_privs`: a program with the set-uid bit runs as whoever started it."""
    ended = layered("user").run(
        "import subprocess\n"
        "print(subprocess.run(['/bin/su', '-c', 'id -u'], stdin=subprocess.DEVNULL, capture_output=True).stdout)\n"
        "print(subprocess.run(['/bin/grep', 'NoNewPrivs', '/proc/self/status'], capture_output=True).stdout)"
    )
    assert "b'0\\n'" not in ended.text
    assert "NoNewPrivs:\\t1" in ended.text


@pytest.mark.layers("user")
@pytest.mark.needs_root
def test_user_alone_has_no_capability(layered):
    box = layered("user")
    status = Path(f"/proc/{box.pid}/status").read_text()
    for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(status.partition(f"{kind}:")[2].split()[0], 16) == 0


# -- rlimits and the control group


def test_rlimits_alone_limit_memory(layered):
    box = layered("rlimits", limits={"memory_bytes": 96 * MB})
    ended = box.run("x = bytearray(200 << 20)")
    assert (ended.limit, ended.survived) == ("MemoryLimit", True)
    assert box.run("1 + 1").value == "2"


def test_rlimits_alone_limit_a_file(layered):
    ended = layered("rlimits", limits={"file_bytes": 2 * MB}).run("open('f', 'wb').write(bytes(5 << 20))")
    assert ended.limit == "FileLimit"


def test_rlimits_alone_limit_descriptors(layered):
    box = layered("rlimits")
    assert "Too many open files" in box.run("import os\nwhile True:\n    os.open('/dev/null', 0)").message
    assert "Max open files            256 " in Path(f"/proc/{box.pid}/limits").read_text()


def test_rlimits_alone_leave_no_core(layered):
    box = layered("rlimits")
    assert "Max core file size        0 " in Path(f"/proc/{box.pid}/limits").read_text()


def test_rlimits_alone_cannot_be_raised(layered, user):
    """By whoever is not root: as root the layer `user` has to be there."""
    box = layered("rlimits", "user")
    ended = box.run("import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))")
    assert ended.error in ("ValueError", "PermissionError")


@pytest.mark.needs_cgroup
@pytest.mark.needs_root
def test_a_control_group_alone_counts_memory_of_processes_together(layered):
    """Each child stays within its own limit; together they are more than the session may have."""
    box = layered("cgroup", "rlimits", limits={"memory_bytes": 64 * MB, "file_bytes": 1 * MB})
    below: set[int] = set()

    def look() -> int:
        below.update(children(box.pid))
        return memory_together(box.pid)

    _, most = watch(
        box,
        "import os, time\n"
        "for _ in range(8):\n"
        "    if os.fork() == 0:\n        x = bytearray(b'x' * (25 << 20))\n        time.sleep(5)\n        os._exit(0)\n"
        "time.sleep(5)",
        look,
        timeout=1.5,
    )
    for pid in below:
        end(pid)
    assert most < (64 + 1 + 144) * MB  # each process is looked at a moment later than the one before


@pytest.mark.needs_cgroup
def test_a_control_group_alone_counts_processes(layered):
    box = layered("cgroup", "rlimits", limits={"processes": 10})
    ended = box.run(
        "import os, time\nmade = 0\n"
        "for _ in range(60):\n"
        "    try:\n        if os.fork() == 0:\n            time.sleep(30)\n        made += 1\n"
        "    except OSError:\n        break\nmade"
    )
    assert int(ended.value) < 14
    assert sum(threads(pid) for pid in (box.pid, *children(box.pid))) <= 14
    for pid in children(box.pid):
        end(pid)


# -- layers in pairs: what one does not cover, another does


@pytest.mark.layers("landlock", "seccomp")
def test_landlock_with_seccomp_keeps_what_landlock_alone_does_not(layered, listeners, secret):
    box = layered("landlock", "seccomp")
    for name in ("udp", "unix"):
        box.run(_calls(listeners, name))
    box.run(f"import os\nos.chmod({str(secret.closed)!r}, 0o777)")
    assert listeners.collect() == []
    assert secret.unharmed()
