"""Files: reading, writing and changing what is the host's, by every way to name a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Each defines `steal(path)`, which must not give the file's text.
_WAYS_TO_READ = {
    "open": "def steal(path):\n    return open(path).read()",
    "os.open": "def steal(path):\n    return os.read(os.open(path, os.O_RDONLY), 1000)",
    "from-the-root-directory": (
        "def steal(path):\n"
        "    root = os.open('/', os.O_RDONLY | os.O_DIRECTORY)\n"
        "    return os.read(os.open(path[1:], os.O_RDONLY, dir_fd=root), 1000)"
    ),
    "dot-dot": "def steal(path):\n    return open('../' * 30 + path[1:]).read()",
    "through-a-symlink": "def steal(path):\n    os.symlink(path, 'link')\n    return open('link').read()",
    "through-a-link-to-a-directory": (
        "def steal(path):\n"
        "    os.symlink(os.path.dirname(path), 'there')\n"
        "    return open('there/' + os.path.basename(path)).read()"
    ),
    "through-a-hard-link": "def steal(path):\n    os.link(path, 'copy')\n    return open('copy').read()",
    "renamed-into-scratch": "def steal(path):\n    os.rename(path, 'taken')\n    return open('taken').read()",
    "proc-self-root": "def steal(path):\n    return open('/proc/self/root' + path).read()",
    "proc-1-root": "def steal(path):\n    return open('/proc/1/root' + path).read()",
    "proc-of-the-parent": "def steal(path):\n    return open(f'/proc/{os.getppid()}/root' + path).read()",
    "memory-map": (
        "def steal(path):\n"
        "    import mmap\n"
        "    return bytes(mmap.mmap(os.open(path, os.O_RDONLY), 0, prot=mmap.PROT_READ))"
    ),
    "sendfile": (
        "def steal(path):\n"
        "    out = os.open('out', os.O_RDWR | os.O_CREAT)\n"
        "    os.sendfile(out, os.open(path, os.O_RDONLY), 0, 1000)\n"
        "    return os.pread(out, 1000, 0)"
    ),
    "path-only-then-reopen": (
        "def steal(path):\n"
        "    handle = os.open(path, os.O_PATH)\n"
        "    for name in (f'/proc/self/fd/{handle}', f'/dev/fd/{handle}'):\n"
        "        try:\n"
        "            return open(name).read()\n"
        "        except OSError:\n"
        "            pass\n"
        "    return os.read(handle, 1000)"
    ),
    "chdir-then-relative": (
        "def steal(path):\n    os.chdir(os.path.dirname(path))\n    return open(os.path.basename(path)).read()"
    ),
    "c-library": (
        "def steal(path):\n"
        "    import ctypes\n"
        "    c = ctypes.CDLL(None)\n"
        "    c.fopen.restype = ctypes.c_void_p\n"
        "    file = c.fopen(path.encode(), b'r')\n"
        "    if not file:\n"
        "        raise OSError('fopen')\n"
        "    buffer = ctypes.create_string_buffer(1000)\n"
        "    c.fread(buffer, 1, 999, ctypes.c_void_p(file))\n"
        "    return buffer.value"
    ),
    "open-by-handle": (
        "def steal(path):\n"
        "    import ctypes, struct\n"
        "    c = ctypes.CDLL(None, use_errno=True)\n"
        "    handle = ctypes.create_string_buffer(struct.pack('=II', 128, 0) + bytes(128))\n"
        "    mount = ctypes.c_int()\n"
        "    if c.name_to_handle_at(-100, path.encode(), handle, ctypes.byref(mount), 0) < 0:\n"
        "        raise OSError(ctypes.get_errno(), 'name_to_handle_at')\n"
        "    return os.read(c.open_by_handle_at(os.open('/', 0), handle, 0), 1000)"
    ),
    "another-program": (
        "def steal(path):\n    import subprocess\n    return subprocess.check_output(['/bin/cat', path])"
    ),
    "imported-as-a-module": (
        "def steal(path):\n"
        "    import importlib.util, importlib.machinery\n"
        "    loader = importlib.machinery.SourceFileLoader('taken', path)\n"
        "    return loader.get_data(path)"
    ),
    "loaded-as-a-library": (
        "def steal(path):\n    import ctypes\n    return ctypes.CDLL(path)"  # the loader's error would quote nothing
    ),
}

_TRY_BOTH = """
import os
{way}
for path in ({readable!r}, {closed!r}):
    try:
        print('got', steal(path))
    except BaseException as error:
        print('refused', type(error).__name__, error)
"""


@pytest.mark.parametrize("way", _WAYS_TO_READ)
def test_reading_a_file_of_the_host(box, secret, way):
    ended = box.run(_TRY_BOTH.format(way=_WAYS_TO_READ[way], readable=str(secret.readable), closed=str(secret.closed)))
    assert not any(token in ended.everything for token in secret.tokens)
    assert secret.unharmed()


# Each has `path`, `closed` and `directory` of the host; what they hold must stay as it is.
_WAYS_TO_CHANGE = {
    "overwrite": "open(path, 'w').write('changed')",
    "append": "open(path, 'a').write('changed')",
    "truncate": "os.truncate(path, 0)",
    "remove": "os.unlink(path)",
    "rename": "os.rename(path, path + '.old')",
    "replace-with-ours": "open('ours', 'w').write('changed'); os.replace('ours', path)",
    "create-beside": "open(directory + '/new', 'w').write('x')",
    "make-a-directory": "os.mkdir(directory + '/new')",
    "make-a-symlink": "os.symlink('/etc/passwd', directory + '/new')",
    "make-a-hard-link": "os.link(path, directory + '/new')",
    "make-a-pipe": "os.mkfifo(directory + '/new')",
    "make-a-device": "os.mknod(directory + '/new', 0o600 | 0o020000, os.makedev(1, 3))",
    "chmod": "os.chmod(path, 0o777)",
    "chmod-of-a-closed-file": "os.chmod(closed, 0o777)",
    "chmod-of-the-directory": "os.chmod(directory, 0)",
    "chown": "os.chown(path, os.getuid(), -1)",
    "set-times": "os.utime(path, (0, 0))",
    "set-an-attribute": "os.setxattr(path, 'user.mark', b'x')",
    "write-through-a-symlink": "os.symlink(path, 'w'); open('w', 'w').write('changed')",
    "write-through-a-writable-map": (
        "import mmap; m = mmap.mmap(os.open(path, os.O_RDWR), 0); m[0:4] = b'XXXX'; m.flush()"
    ),
    "copy-file-range": (
        "open('ours', 'w').write('changed'); os.copy_file_range(os.open('ours', 0), os.open(path, os.O_WRONLY), 7)"
    ),
    "remove-the-directory": "import shutil; shutil.rmtree(directory)",
}


@pytest.mark.parametrize("way", _WAYS_TO_CHANGE)
def test_changing_files_of_the_host(box, secret, way):
    before = secret.readable.stat()
    names = f"directory, path, closed = {str(secret.directory)!r}, {str(secret.readable)!r}, {str(secret.closed)!r}\n"
    box.run(f"import os\n{names}{_WAYS_TO_CHANGE[way]}")
    assert secret.unharmed()
    after = secret.readable.stat()
    assert (before.st_ino, before.st_mtime_ns, before.st_uid) == (after.st_ino, after.st_mtime_ns, after.st_uid)
    assert not os.listxattr(secret.readable)


def test_listing_what_is_on_the_machine(box, secret):
    ended = box.run(
        "import os\n"
        "for place in ('/', '/tmp', '/etc', '/home', '/root', '/proc', '/sys', '/var', '/run', '/dev', '..'):\n"
        "    try:\n"
        "        print(place, os.listdir(place))\n"
        "    except OSError as error:\n"
        "        print(place, error.errno)\n"
    )
    assert secret.directory.name not in ended.everything
    assert "passwd" not in ended.text
    assert ".bash_history" not in ended.text


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/etc/hostname",
        "/etc/machine-id",
        "/proc/cmdline",
        "/proc/version",
        "/proc/mounts",
        "/var/log/dpkg.log",
    ],
)
def test_reading_a_well_known_file(box, path):
    begins = Path(path).read_text()[:40].strip() if Path(path).exists() else "no such file on this machine"
    ended = box.run(f"print(open({path!r}).read()[:4000])")
    assert not begins or begins not in ended.everything
    assert ended.error in ("FileNotFoundError", "PermissionError")


_PLACES_TO_CHANGE = {
    "python's-library": "os.path.dirname(os.__file__) + '/escaped.py'",
    "the-sandbox-itself": "os.path.dirname(sandbox.__file__) + '/escaped.py'",
    "site-packages": "os.path.dirname(os.path.dirname(zmq.__file__)) + '/escaped.pth'",
    "the-system's-programs": "'/usr/bin/escaped'",
    "the-root-directory": "'/escaped'",
    "devices": "'/dev/escaped'",
    "shared-memory": "'/dev/shm/escaped'",
    "temporary-files": "'/tmp/escaped'",
}


@pytest.mark.parametrize("place", _PLACES_TO_CHANGE)
def test_leaving_code_where_the_host_would_run_it(box, place):
    code = f"import os, sys, sandbox, zmq\npath = {_PLACES_TO_CHANGE[place]}\nprint(path)\nopen(path, 'w').write('x')"
    ended = box.run(code)
    path = Path(ended.lines[0])
    assert path.name.startswith("escaped")
    assert not path.exists()


def test_changing_a_module_that_is_already_there(box):
    ended = box.run(
        "import sandbox\nprint(sandbox.__file__)\n"
        "with open(sandbox.__file__, 'r+') as file:\n    file.write('import os  # changed')"
    )
    assert "# changed" not in Path(ended.lines[0]).read_text()


def test_raw_devices(box):
    ended = box.run(
        "import os\n"
        "for name in ('mem', 'kmem', 'kmsg', 'vda', 'sda', 'nvme0n1', 'tty', 'console', 'ptmx', 'fuse', 'kvm',\n"
        "             'net/tun', 'loop-control', 'mapper/control', 'vsock', 'userfaultfd'):\n"
        "    for mode in (os.O_RDONLY, os.O_RDWR):\n"
        "        try:\n"
        "            os.open('/dev/' + name, mode | os.O_NONBLOCK)\n"
        "            print('opened', name)\n"
        "        except OSError:\n"
        "            pass\n"
    )
    assert ended.error is None
    assert ended.text == ""


def test_running_a_program_of_its_own_making(box, secret):
    """What is written to the scratch directory cannot be executed."""
    ended = box.run(
        "import os, shutil, subprocess\n"
        f"open('run.sh', 'w').write('#!/bin/sh\\necho escaped > {secret.directory}/new\\necho it ran\\n')\n"
        "shutil.copyfile('/bin/echo', 'echo')\n"
        "for name in ('run.sh', 'echo'):\n"
        "    try:\n"
        "        os.chmod(name, 0o755)\n"
        "    except OSError:\n"
        "        pass\n"
        "    try:\n"
        "        print(subprocess.check_output(['./' + name, 'it ran']))\n"
        "    except OSError as error:\n"
        "        print('refused', error.errno)\n"
    )
    assert "it ran" not in ended.text
    assert secret.unharmed()


def test_a_program_that_would_give_it_rights(box):
    """Set-uid programs give nothing, where programs can be run at all."""
    ended = box.run(
        "import subprocess\n"
        "for command in (['/usr/bin/su', '-c', 'id -u'], ['/bin/mount', '-t', 'tmpfs', 'x', '/box'],\n"
        "                ['/usr/bin/passwd', '-d', 'root'], ['/usr/bin/newgrp', 'root']):\n"
        "    try:\n"
        "        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=10)\n"
        "        print(command[0], done.returncode, done.stdout)\n"
        "    except Exception as error:\n"
        "        print(command[0], type(error).__name__)\n"
    )
    assert ended.error is None
    for line in ended.lines:
        assert not line.split()[1].startswith("0"), line
