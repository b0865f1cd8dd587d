"""Writing through the out folder: links, devices, sparse files, many files, and what the host makes of them."""

from __future__ import annotations

import contextlib

import pytest

from .hosts import Raised, goes_on

# Each has `out`, the path of the folder, and `path` and `closed`, which are files of the host.
_WAYS = {
    "link": "os.symlink(path, out + '/link')",
    "relative-link": "os.symlink('../../../../../..' + path, out + '/link')",
    "link-to-the-root": "os.symlink('/', out + '/root')",
    "link-of-a-folder": "os.mkdir(out + '/sub'); os.symlink(os.path.dirname(path), out + '/sub/there')",
    "hard-link": "os.link(path, out + '/hard')",
    "hard-link-of-its-own": "os.link(os.__file__, out + '/hard')",
    "device": "os.mknod(out + '/zero', 0o666 | 0o020000, os.makedev(1, 5))",
    "pipe": "os.mkfifo(out + '/pipe')",
    "socket": "import socket; socket.socketpair()[0].bind(out + '/socket')",
    "name-with-dots": "os.makedirs(out + '/a'); open(out + '/a/..b', 'w').write('x')",
    "the-folder-replaced-by-a-link": "os.rmdir(out); os.symlink(os.path.dirname(path), out)",
    "the-folder-moved": "os.rename(out, out + '2')",
    "a-file-that-becomes-a-link": (
        "import threading, time\n"
        "def swap():\n"
        "    while True:\n"
        "        try:\n"
        "            open(out + '/x', 'w').write('mine'); os.unlink(out + '/x'); os.symlink(path, out + '/x')\n"
        "            os.unlink(out + '/x')\n"
        "        except OSError:\n"
        "            pass\n"
        "threading.Thread(target=swap, daemon=True).start()"
    ),
}

_SETUP = """import os
out = '/out' if os.path.isdir('/out') else os.path.join(os.getcwd(), 'out')
path, closed = {paths!r}
"""


def _setup(secret) -> str:
    return _SETUP.format(paths=(str(secret.readable), str(secret.closed)))


_TOGETHER = [way for way in _WAYS if not way.startswith("the-folder")]


@pytest.mark.parametrize(
    "ways", [_TOGETHER, *([way] for way in _WAYS if way not in _TOGETHER)], ids=lambda ways: ways[0]
)
def test_what_is_collected_is_nothing_of_the_hosts(box, secret, ways):
    code = _setup(secret) + "open(out + '/mine', 'w').write('mine')\n"
    for way in ways:
        lines = "\n".join(f"    {line}" for line in _WAYS[way].splitlines())
        code += f"try:\n{lines}\nexcept OSError as error:\n    print(error)\n"
    box.run(code)
    files = box.host.ask("collect", number=box.number)
    assert not any(token in str(files) for token in secret.tokens)
    assert secret.unharmed()
    assert all(name in ("mine", "x", "a/..b") for name in files)


def test_a_sparse_file(box, secret):
    """A file that says that it is huge is not sent, and not made."""
    box.run(_setup(secret) + "f = open(out + '/huge', 'wb')\nf.truncate(1 << 40)\nf.seek(1 << 40)\nf.write(b'x')")
    box.run(_setup(secret) + "f = open(out + '/large', 'wb')\nf.truncate(5 << 20)")
    files = box.host.ask("collect", number=box.number)
    assert files["large"][0] == 5 << 20
    assert files.get("huge", (None,))[0] in (None, 0)
    assert goes_on(box)


def test_a_hundred_thousand_files(open_box, secret):
    box = open_box(limits={"file_count": 200})
    ended = box.run(
        _setup(secret) + "for number in range(100_000):\n    open(f'{out}/{number}', 'w').write('x')", timeout=20
    )
    assert ended.error is not None or ended.limit is not None or ended.death is not None
    if ended.alive:
        assert len(box.host.ask("collect", number=box.number)) <= 500
    assert goes_on(box)


def test_a_kernel_whose_answers_are_its_own(box, secret):
    """Code that takes over what answers the host can only send bytes, and not for ever."""
    box.run(
        "import gc, base64\n"
        "from sandbox.kernel.outputs import OutFolder\n"
        "OutFolder.listing = lambda self: [['../../../tmp/escaped', 10], ['a', 10 ** 9], ['b', 50], ['c', 50]]\n"
        "OutFolder.read = lambda self, name, offset, size: base64.b64encode(b'x' * 5_000_000).decode()\n"
    )
    with contextlib.suppress(Raised):  # too much at once: the kernel is ended, and the host says so
        files = box.host.ask("collect", number=box.number)
        assert {name: size for name, (size, _) in files.items()} == {"a": None, "b": 50, "c": 50}
    assert goes_on(box)
