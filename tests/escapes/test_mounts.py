"""Files and folders that a session was given: the ways through them to others, and to changing them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .conftest import Planted
from .hosts import Box, HostProcess, Raised


@dataclass(frozen=True)
class Given:
    """A folder that a session gets, beside a secret that it does not."""

    folder: Path
    secret: Planted


@pytest.fixture
def given(secret: Planted, host: HostProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Given]:
    folder = Path(str(secret.directory) + "-given")
    (folder / "below").mkdir(parents=True)
    (folder / "doc.txt").write_text("given")
    (folder / "link").symlink_to(secret.readable)
    (folder / "relative").symlink_to(f"../{secret.directory.name}/readable")
    (folder / "there").symlink_to(secret.directory)
    (folder / "root").symlink_to("/")
    (folder / "below" / "up").symlink_to("../..")
    (folder / "itself").symlink_to("itself")
    os.mkfifo(folder / "pipe")
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, host.uid, host.uid, follow_symlinks=False)
    folder.chmod(0o700)
    (folder / "doc.txt").chmod(0o600)
    yield Given(folder, secret)
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    folder.rmdir()


# Each defines `steal(secret, name)`, which must not give the text of the file that the path names; `name` is its end.
_WAYS_TO_READ = {
    "a-link": "def steal(secret, name):\n    return open(data.path + '/link').read()",
    "a-relative-link": "def steal(secret, name):\n    return open(data.path + '/relative').read()",
    "a-link-to-a-folder": "def steal(secret, name):\n    return open(data.path + '/there/readable').read()",
    "a-link-to-the-root": "def steal(secret, name):\n    return open(data.path + '/root' + secret).read()",
    "dot-dot": "def steal(secret, name):\n    return open(data.path + '/../' + name).read()",
    "dot-dot-from-below": "def steal(secret, name):\n    return open(data.path + '/below/up/' + name).read()",
    "the-folder-as-a-descriptor": (
        "def steal(secret, name):\n"
        "    place = os.open(data.path, os.O_RDONLY | os.O_DIRECTORY)\n"
        "    return os.read(os.open('../' + name, os.O_RDONLY, dir_fd=place), 1000)"
    ),
    "the-folder-as-the-working-directory": (
        "def steal(secret, name):\n    os.chdir(data.path)\n    return open('../' + name).read()"
    ),
    "a-link-of-its-own-to-the-folder": (
        "def steal(secret, name):\n    os.symlink(data.path + '/..', 'up')\n    return open('up/' + name).read()"
    ),
    "the-list-of-files": (
        "def steal(secret, name):\n    return [one.text for one in data.files] + [one.text for one in data.glob('**')]"
    ),
    "a-name-for-the-folder": "def steal(secret, name):\n    return data['../' + name].text",
    "a-file-of-our-own": (
        "def steal(secret, name):\n"
        "    kind = type(data.files[0])\n"
        "    return kind(secret, 'x', 1).text + kind(data.path + '/../' + name, 'x', 1).text"
    ),
}

_TRY = """
import os
{way}
for secret, name in {places!r}:
    try:
        print('got', steal(secret, name))
    except BaseException as error:
        print('refused', type(error).__name__, error)
"""


@pytest.mark.parametrize("way", _WAYS_TO_READ)
def test_reading_what_is_beside_a_folder(open_box, given, way):
    places = [(str(path), f"{path.parent.name}/{path.name}") for path in (given.secret.readable, given.secret.closed)]
    box: Box = open_box(files={"data": str(given.folder)})
    ended = box.run(_TRY.format(way=_WAYS_TO_READ[way], places=places))
    assert not any(token in ended.everything for token in given.secret.tokens)
    assert given.secret.unharmed()
    assert box.run("print(data['doc.txt'].text)").text == "given\n"


# Each has `doc`, a file that was given, and `data`, the folder that it is in.
_WAYS_TO_CHANGE = {
    "overwrite": "open(doc, 'w').write('changed')",
    "append": "open(doc, 'a').write('changed')",
    "in-the-folder": "open(data['doc.txt'], 'r+').write('changed')",
    "truncate": "os.truncate(doc.path, 0)",
    "remove": "os.unlink(doc.path)",
    "remove-in-the-folder": "os.unlink(data.path + '/doc.txt')",
    "rename": "os.rename(data.path + '/doc.txt', data.path + '/moved')",
    "take": "os.rename(data.path + '/doc.txt', 'taken')",
    "replace": "open('ours', 'w').write('changed'); os.replace('ours', data.path + '/doc.txt')",
    "link-and-write": "os.link(doc.path, 'ours'); open('ours', 'w').write('changed')",
    "create": "open(data.path + '/new', 'w').write('x')",
    "make-a-directory": "os.mkdir(data.path + '/new')",
    "make-a-link": "os.symlink('/etc/passwd', data.path + '/new')",
    "make-a-pipe": "os.mkfifo(data.path + '/new')",
    "make-a-device": "os.mknod(data.path + '/new', 0o600 | 0o020000, os.makedev(1, 3))",
    "chmod": "os.chmod(doc.path, 0o777)",
    "chmod-the-folder": "os.chmod(data.path, 0o777)",
    "chown": "os.chown(doc.path, os.getuid(), -1)",
    "set-times": "os.utime(doc.path, (0, 0))",
    "set-an-attribute": "os.setxattr(doc.path, 'user.mark', b'x')",
    "writable-map": "import mmap; mmap.mmap(os.open(doc.path, os.O_RDWR), 0)[0:4] = b'XXXX'",
    "lock": "import fcntl; fcntl.flock(open(doc), fcntl.LOCK_EX)",
    "write-to-a-pipe": "os.write(os.open(data.path + '/pipe', os.O_RDWR | os.O_NONBLOCK), b'x')",
}


@pytest.mark.parametrize("way", _WAYS_TO_CHANGE)
def test_changing_what_was_given(open_box, given, way):
    doc = given.folder / "doc.txt"
    reader = os.open(given.folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        names, before = sorted(os.listdir(given.folder)), doc.stat()
        box = open_box(files={"data": str(given.folder), "doc": str(doc)})
        box.run(f"import os\n{_WAYS_TO_CHANGE[way]}")
        assert (doc.read_text(), sorted(os.listdir(given.folder))) == ("given", names)
        after = doc.stat()
        assert (before.st_mode, before.st_uid, before.st_mtime_ns) == (after.st_mode, after.st_uid, after.st_mtime_ns)
        assert given.folder.stat().st_mode & 0o777 == 0o700
        assert not os.listxattr(doc)
        assert _arrived(reader) == b""
    finally:
        os.close(reader)


def _arrived(reader: int) -> bytes:
    try:
        return os.read(reader, 100)
    except BlockingIOError:
        return b""


def test_running_what_was_given(open_box, given):
    program = given.folder / "run.sh"
    program.write_text("#!/bin/sh\necho it ran\n")
    program.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(program, given.folder.stat().st_uid, -1)
    ended = open_box(files={"data": str(given.folder)}).run(
        "import subprocess\nprint(subprocess.check_output([data.path + '/run.sh']))"
    )
    assert "it ran" not in ended.text


def test_a_pipe_in_a_folder_keeps_nobody_waiting(open_box, given):
    ended = open_box(files={"data": str(given.folder)}).run("open(data.path + '/pipe')", timeout=0.5)
    assert ended.limit == "CellTimeLimit" or ended.error is not None
    assert ended.within(3.0)


def test_a_file_that_is_replaced_while_the_session_is_open(open_box, given):
    """It keeps what it was given, or loses it: it never gets what took its place."""
    doc = given.folder / "doc.txt"
    box = open_box(files={"doc": str(doc)})
    doc.rename(given.folder / "old")
    doc.symlink_to(given.secret.readable)
    ended = box.run("print(open(doc).read())")
    assert given.secret.tokens[0] not in ended.everything
    assert ended.text in ("given\n", "")


def test_a_folder_that_is_replaced_while_the_session_is_open(open_box, given):
    box = open_box(files={"data": str(given.folder)})
    away = given.folder.with_name(given.folder.name + "-away")
    given.folder.rename(away)
    given.folder.symlink_to(given.secret.directory)
    try:
        ended = box.run("import os\nprint(os.listdir(data.path))\nprint(open(data.path + '/readable').read())")
        assert given.secret.tokens[0] not in ended.everything
    finally:
        given.folder.unlink()
        away.rename(given.folder)


@pytest.mark.needs_root
def test_a_device_in_a_folder(open_box, given, variant):
    device = given.folder / "zero"
    os.mknod(device, 0o666 | 0o020000, os.makedev(1, 5))
    device.chmod(0o666)
    if variant.tier == "landlock":  # where the folder is the host's own
        with pytest.raises(Raised, match="is a device"):
            open_box(files={"data": str(given.folder)})
        return
    ended = open_box(files={"data": str(given.folder)}).run("print(open(data.path + '/zero', 'rb').read(4))")
    assert "\\x00" not in ended.text
    assert ended.error == "PermissionError"


def test_a_folder_within_a_folder_that_was_not_given(open_box, given):
    """A session with a file sees nothing of the folder that the file is in."""
    ended = open_box(files={"doc": str(given.folder / "doc.txt")}).run(
        "import os\n"
        f"for place in (os.path.dirname(doc.path), {str(given.folder)!r}):\n"
        "    try:\n"
        "        print(os.listdir(place))\n"
        "    except OSError as error:\n"
        "        print('refused', error.errno)\n"
    )
    assert "below" not in ended.text
    assert "pipe" not in ended.text
