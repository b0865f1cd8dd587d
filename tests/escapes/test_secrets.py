"""Secrets of the host: in its environment, in /proc, in memory, in descriptors, in what the kernel was told."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

import pytest

from .hosts import open_files

_WAYS_TO_THE_ENVIRONMENT = {
    "os.environ": "print(dict(os.environ))",
    "the-c-library": (
        "import ctypes\nc = ctypes.CDLL(None)\nenviron = ctypes.POINTER(ctypes.c_char_p).in_dll(c, 'environ')\ni = 0\n"
        "while environ and environ[i]:\n    print(environ[i])\n    i += 1\n"
        "c.getenv.restype = ctypes.c_char_p\nprint(c.getenv(b'PLANTED_SECRET'))"
    ),
    "proc-self-environ": "print(open('/proc/self/environ').read())",
    "proc-1-environ": "print(open('/proc/1/environ').read())",
    "proc-of-the-parent": "print(open(f'/proc/{os.getppid()}/environ').read())",
    "every-process": (
        "for pid in range(1, 70000):\n    try:\n        print(open(f'/proc/{pid}/environ', 'rb').read())\n"
        "    except OSError:\n        pass"
    ),
    "a-child": "import subprocess\nprint(subprocess.check_output(['/usr/bin/env']))",
    "the-stack-where-it-was-born": (
        # The environment that a process starts with lies above its stack, even after `os.environ` was emptied.
        "import ctypes\nc = ctypes.CDLL(None)\n"
        "top = ctypes.c_void_p.in_dll(c, '__environ').value\n"
        "name = ctypes.c_char_p.in_dll(c, 'program_invocation_name')\n"
        "address = ctypes.cast(name, ctypes.c_void_p).value\n"
        "print(ctypes.string_at(address, 200))"
    ),
    "every-string-in-python": (
        "import gc\nfor one in gc.get_objects():\n"
        "    if isinstance(one, dict):\n        print([v for v in list(one.values()) if isinstance(v, str)][:50])"
    ),
}


@pytest.mark.parametrize("way", _WAYS_TO_THE_ENVIRONMENT)
def test_reading_the_host_s_environment(box, host, way):
    ended = box.run(f"import os\n{_WAYS_TO_THE_ENVIRONMENT[way]}")
    assert host.token not in ended.everything
    assert "PLANTED_SECRET" not in ended.text.replace("getenv", "")


@pytest.mark.needs_root
def test_the_host_s_secrets_are_nowhere_in_the_kernel_s_memory(box, host):
    assert box.run("'it runs'").value == "'it runs'"
    memory = memory_of(box.pid)
    assert b"it runs" in memory
    assert host.token.encode() not in memory
    assert host.token.encode() not in memory_of(host.ask("zygote"))


@pytest.mark.needs_root
def test_nothing_of_the_host_is_open_in_the_kernel(box):
    """Pipes and sockets that are its own, and a few devices: no file, no directory, no terminal of the host."""
    for target in open_files(box.pid).values():
        kind = target.partition(":")[0]
        assert kind in ("socket", "pipe", "anon_inode", "/dev/null", "/null", "/dev/urandom", "/urandom"), target


_VICTIM = {
    "environ": "print(open(f'/proc/{pid}/environ', 'rb').read())",
    "mem": "print(open(f'/proc/{pid}/mem', 'rb').read(100))",
    "cmdline": "print(open(f'/proc/{pid}/cmdline', 'rb').read())",
    "maps": "print(open(f'/proc/{pid}/maps').read())",
    "descriptors": "print(os.listdir(f'/proc/{pid}/fd')); open(f'/proc/{pid}/fd/0', 'w').write('x')",
    "root": "print(os.listdir(f'/proc/{pid}/root'))",
    "working-directory": "print(os.listdir(f'/proc/{pid}/cwd'))",
    "adjust-its-oom-score": "open(f'/proc/{pid}/oom_score_adj', 'w').write('1000')",
    "move-it-to-a-group": "open('/sys/fs/cgroup/memory/cgroup.procs', 'w').write(str(pid))",
}


@pytest.mark.parametrize("way", _VICTIM)
def test_looking_into_a_process_of_the_host(box, victim, way):
    environment = Path(f"/proc/{victim.pid}/environ").read_text()
    ended = box.run(f"import os\npid = {victim.pid}\n{_VICTIM[way]}")
    assert environment.partition("=")[2].strip("\0") not in ended.everything
    assert ended.text == ""
    assert ended.error in ("FileNotFoundError", "PermissionError")
    assert victim.poll() is None
    assert Path(f"/proc/{victim.pid}/oom_score_adj").read_text().strip() != "1000"


def test_the_inputs_of_this_session_are_all_that_it_knows(open_box):
    """What another session was given is not in the memory that both were forked from."""
    token = secrets.token_hex(16)
    first = open_box(inputs={"document": token}, shared={"large": "x" * 300_000})
    assert first.run("kept = document * 3\nopen('kept', 'w').write(document)").error is None
    second = open_box()
    ended = second.run(
        "import gc, sys\nfound = []\n"
        "for one in gc.get_objects():\n"
        "    for held in gc.get_referents(one):\n"
        "        if type(held) in (str, bytes) and len(held) in (32, 96):\n            found.append(held)\n"
        "print(found)\n"
        "print([name for name in globals()])\n"
        "import os\nprint(os.listdir('.'), os.listdir('/tmp') if os.access('/tmp', os.R_OK) else '')"
    )
    assert token not in ended.everything
    if os.geteuid() == 0:
        assert token.encode() not in memory_of(second.pid)
        assert token.encode() not in memory_of(first.host.ask("zygote"))


def memory_of(pid: int) -> bytes:
    """All that a process could read of its own memory and could have changed."""
    pieces = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            places, rights, *_ = line.split()
            if rights.startswith("rw"):
                start, end = (int(one, 16) for one in places.split("-"))
                try:
                    memory.seek(start)
                    pieces.append(memory.read(end - start))
                except (OSError, OverflowError):
                    continue
    return b"".join(pieces)


def test_what_the_kernel_is_told_about_the_host(box, host):
    """No path of the host's user, no command line, no name of the machine beyond what it needs."""
    ended = box.run(
        "import os, sys, getpass, platform, pwd\n"
        "print(sys.argv, os.getcwd(), os.environ)\n"
        "for look in (os.getlogin, getpass.getuser, lambda: pwd.getpwuid(os.getuid())):\n"
        "    try:\n        print(look())\n    except BaseException as error:\n        print(type(error).__name__)"
    )
    assert "root" not in ended.text.replace(sys.base_prefix, "")
    assert host.token not in ended.text


@pytest.mark.needs_root
def test_other_sessions_keys_and_sockets_by_path(box, host):
    """Where the sockets lay is known; what lay there is gone before any code runs."""
    ended = box.run(
        "import os, socket\n"
        "for number in range(3, 256):\n"
        "    try:\n        one = socket.socket(fileno=os.dup(number))\n"
        "        print(one.getsockname(), one.getpeername())\n"
        "    except OSError:\n        pass\n"
    )
    for word in ended.text.replace("'", " ").split():
        if word.startswith("/"):
            assert not Path(word).exists()
            assert not Path(word).parent.exists()
