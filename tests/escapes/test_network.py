"""The network: every family, by address, by name, by path, by inherited socket. Listeners of the host hear nothing."""

from __future__ import annotations

import os
import socket

import pytest

from .listeners import Listeners

_CONNECT = """
import socket
for family, kind, address in {targets!r}:
    try:
        one = socket.socket(family, kind)
        one.settimeout(1)
        {action}
        print('through', address)
    except OSError as error:
        print('refused', error.errno)
"""
_FAMILIES = {
    "tcp": (socket.AF_INET, socket.SOCK_STREAM),
    "udp": (socket.AF_INET, socket.SOCK_DGRAM),
    "tcp6": (socket.AF_INET6, socket.SOCK_STREAM),
    "udp6": (socket.AF_INET6, socket.SOCK_DGRAM),
    "unix": (socket.AF_UNIX, socket.SOCK_STREAM),
    "unix-datagrams": (socket.AF_UNIX, socket.SOCK_DGRAM),
    "abstract": (socket.AF_UNIX, socket.SOCK_STREAM),
    "abstract-datagrams": (socket.AF_UNIX, socket.SOCK_DGRAM),
}


@pytest.mark.parametrize("kind", _FAMILIES)
def test_calling_a_listener(box, listeners, kind):
    # Where the machine has no IPv6, the attempt is made all the same: on an address where nobody can be.
    address = listeners.addresses.get(kind, ("::1", 9, 0, 0))
    action = "one.connect(address); one.send(b'secret')"
    family, type_ = (int(one) for one in _FAMILIES[kind])
    ended = box.run(_CONNECT.format(targets=[(family, type_, address)], action=action))
    assert listeners.collect() == []
    assert "through" not in ended.text


def _targets(listeners: Listeners) -> list[object]:
    return [(int(_FAMILIES[n][0]), int(_FAMILIES[n][1]), address) for n, address in listeners.addresses.items()]


_WAYS = {
    "asyncio": "import asyncio\nawait asyncio.open_connection('127.0.0.1', {port})",
    "http": "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:{port}/', timeout=2)",
    "create_connection": "import socket\nsocket.create_connection(('localhost', {port}), timeout=2)",
    "zmq": (
        "import zmq, time\ns = zmq.Context().socket(zmq.DEALER)\ns.connect('tcp://127.0.0.1:{port}')\ns.send(b'x')\n"
        "time.sleep(1)"
    ),
    "zmq-ipc": (
        "import zmq, time\ns = zmq.Context().socket(zmq.DEALER)\ns.connect('ipc://{path}')\ns.send(b'x')\ntime.sleep(1)"
    ),
    "another-program": (
        "import subprocess, sys\nsubprocess.run(['/bin/bash', '-c', 'echo x > /dev/tcp/127.0.0.1/{port}'], timeout=5)\n"
    ),
    "another-interpreter": (
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'])\n"
    ),
    "by-number": (
        "import ctypes, socket, struct\nc = ctypes.CDLL(None)\n"
        "for family in (2, 10, 1):\n"
        "    fd = c.socket(family, 1, 0)\n"
        "    c.connect(fd, struct.pack('=HH4s8x', 2, socket.htons({port}), bytes([127, 0, 0, 1])), 16)\n"
        "    c.send(fd, b'x', 1, 0)\n"
    ),
    "fast-open": ("import socket\ns = socket.socket()\ns.sendto(b'x', socket.MSG_FASTOPEN, ('127.0.0.1', {port}))"),
}


@pytest.mark.parametrize("way", _WAYS)
def test_calling_out(open_box, listeners, way):
    box = open_box(limits={"cell_seconds": 4.0})
    port, path = listeners.addresses["tcp"][1], listeners.addresses["unix"]  # type: ignore[index]
    box.run(_WAYS[way].format(port=port, path=path))
    assert listeners.collect() == []


def test_sending_from_the_sockets_that_it_has(box, listeners):
    """The kernel holds sockets that the host gave it: none of them may be pointed elsewhere."""
    ended = box.run(
        f"import os, socket\ntargets = {_targets(listeners)!r}\n"
        "for number in range(3, 256):\n"
        "    try:\n        one = socket.socket(fileno=os.dup(number))\n    except OSError:\n        continue\n"
        "    one.setblocking(False)\n"
        "    for _, _, address in targets:\n"
        "        for action in (lambda: one.sendto(b'x', address), lambda: one.connect(address),\n"
        "                       lambda: one.sendmsg([b'x'], [], 0, address), lambda: one.bind(address)):\n"
        "            try:\n                action()\n                print('through', number, address)\n"
        "            except (OSError, TypeError):\n                pass\n"
        "    one.detach()\n"
    )
    assert listeners.collect() == []
    assert ended.text == ""


def test_resolving_a_name(open_box):
    """A name in a question to a name server is a message to the world."""
    box = open_box(limits={"cell_seconds": 10.0})
    ended = box.run(
        "import socket\n"
        "try:\n    print('resolved', socket.getaddrinfo('escape.invalid', 80))\n"
        "except OSError as error:\n    print('refused')\n"
    )
    assert ended.text == "refused\n"


def test_listening(box, planted, host):
    """A server inside is a way in as much as a way out."""
    place = planted(host.uid).directory
    ended = box.run(
        "import socket\n"
        f"path = {str(place / 'ours')!r}\n"
        "for family, address in ((2, ('0.0.0.0', 0)), (10, ('::', 0)), (1, path), (1, 'ours'), (1, '\\0ours')):\n"
        "    try:\n"
        "        one = socket.socket(family)\n        one.bind(address)\n        one.listen()\n"
        "        print('listens', address)\n"
        "    except OSError:\n        pass\n"
    )
    assert ended.text == ""
    assert not (place / "ours").exists()


def test_seeing_the_network(box):
    """Neither the interfaces nor who talks to whom."""
    ended = box.run(
        "import socket\n"
        "for look in (lambda: socket.if_nameindex(), lambda: open('/proc/net/tcp').read(),\n"
        "             lambda: open('/sys/class/net').read(), lambda: open('/etc/resolv.conf').read(),\n"
        "             lambda: open('/etc/hosts').read()):\n"
        "    try:\n        print(look())\n    except OSError:\n        pass\n"
    )
    others = [name for _, name in socket.if_nameindex() if name != "lo"]
    assert not any(name in ended.text for name in others)
    assert "local_address" not in ended.text
    assert "nameserver" not in ended.text


@pytest.mark.needs_root
def test_capturing_packets(box):
    ended = box.run(
        "import socket\n"
        "for family, kind, protocol in ((17, 3, 3), (17, 2, 3), (2, 3, 1), (10, 3, 58), (16, 3, 0), (40, 1, 0)):\n"
        "    try:\n        socket.socket(family, kind, protocol)\n        print('made', family)\n"
        "    except OSError:\n        pass\n"
    )
    assert ended.text == ""
    assert os.geteuid() == 0
