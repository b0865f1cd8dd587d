"""Locks that the frames of a stopped cell held, which would never be released: those of modules that it was in.

A cell that is stopped in the midst of an import, of `pool.submit` or of `datetime.strptime` has a lock that all later
cells need. Only what the frames of modules use is looked at: their globals, and the attributes of their `self`. Locks
of the cell's own code, and of objects of C, stay as they are.
"""

from __future__ import annotations

import _imp
import _thread
import contextlib
import inspect
import sys
import threading
import types
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from typing import Any

from .cell_threads import OWN_CODE
from .cells import PREFIX
from .reflection import instance_dict, is_a

_Lock, _RLock = type(_thread.allocate_lock()), type(threading.RLock())
_OTHERS_SECONDS = 0.02
"""How long another thread that holds a lock has to release it."""

_import_machinery: Any = sys.modules["_frozen_importlib"]


def release_locks(frame: types.FrameType | None, boundary: str) -> None:
    """Release what the frames from this one outwards held, up to those of the file `boundary`: they never run again.

    Called by the thread that they ran in. A module whose import they were in the midst of is forgotten, as it is
    where an import fails. No code of the cell runs: what is looked at is of types that are known.
    """
    seen: set[int] = set()
    names: list[str] = []
    while frame is not None and frame.f_code.co_filename != boundary:
        if not frame.f_code.co_filename.startswith((PREFIX, OWN_CODE)):
            for lock in _locks_of(frame):
                if id(lock) not in seen:
                    seen.add(id(lock))
                    _release(lock)
            if frame.f_globals is vars(_import_machinery):
                names += _imported_in(frame)
        frame = frame.f_back
    if names:
        _forget_imports(names)


def _locks_of(frame: types.FrameType) -> Iterator[Any]:
    places = [frame.f_globals]
    owner = frame.f_locals.get("self") if frame.f_code.co_flags & inspect.CO_OPTIMIZED else None
    own = None if is_a(owner, threading.Thread) else instance_dict(owner)  # a thread has a lock for as long as it runs
    if own is not None:
        places.append(own)
    for place in places:
        for value in list(dict.values(place)):
            if type(value) is _Lock or type(value) is _RLock:
                yield value


def _release(lock: Any) -> None:
    if type(lock) is _RLock:
        while lock._is_owned():  # type: ignore[attr-defined]
            lock.release()
    elif lock.locked():
        lock.acquire(timeout=_OTHERS_SECONDS)  # by now it is ours, or was the cell's
        with contextlib.suppress(RuntimeError):
            lock.release()


def _imported_in(frame: types.FrameType) -> list[str]:
    given = frame.f_locals
    spec = given.get("spec")
    names = [given.get("name"), spec.name if type(spec) is ModuleSpec else None]
    return [name for name in names if type(name) is str]


def _forget_imports(names: list[str]) -> None:
    with contextlib.suppress(RuntimeError):  # it is not held, or not by this thread
        while _imp.lock_held():
            _imp.release_lock()
    ident = _thread.get_ident()
    with contextlib.suppress(Exception):
        _import_machinery._blocking_on.pop(ident, None)
    for name in dict.fromkeys(names):
        module = sys.modules.get(name)
        spec = vars(module).get("__spec__") if type(module) is types.ModuleType else None
        if type(spec) is ModuleSpec and spec.__dict__.get("_initializing") is True:
            del sys.modules[name]
        held = _import_machinery._module_locks.get(name)
        lock = held() if held is not None else None
        if lock is not None:
            _release(lock.lock)
            while lock.owner == ident:
                lock.release()
