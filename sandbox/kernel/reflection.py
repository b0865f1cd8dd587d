"""The structure of an object (class, bases, attributes), read without running any of its code.

Nothing here calls code that an object, its class or its metaclass brings along: `type()` instead of `__class__`, C
descriptors of `type` instead of attributes of a class, real class dictionaries walked in order instead of `getattr`.
Dictionaries are iterated, never looked into: a lookup compares keys, and a key may be anything.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from itertools import islice, repeat
from operator import is_
from types import GetSetDescriptorType, MappingProxyType, MemberDescriptorType
from typing import Any

# Every function below looks built-in names up in this copy, so that patching `builtins` later changes nothing here.
globals()["__builtins__"] = dict(vars(builtins))

_ENTRIES = 2000  # how much of one dictionary is looked through: DataFrame's class has about 500 entries
_HEAP, _IMMUTABLE = 1 << 9, 1 << 8  # Py_TPFLAGS_HEAPTYPE, Py_TPFLAGS_IMMUTABLETYPE

mro = type.__dict__["__mro__"].__get__
bases = type.__dict__["__bases__"].__get__
_flags = type.__dict__["__flags__"].__get__
_name = type.__dict__["__name__"].__get__
_qualified = type.__dict__["__qualname__"].__get__
_module = type.__dict__["__module__"].__get__
_class_dict = type.__dict__["__dict__"].__get__
_items = MappingProxyType.items
_getset, _member = GetSetDescriptorType.__get__, MemberDescriptorType.__get__
_getset_name = GetSetDescriptorType.__dict__["__name__"].__get__
_getset_owner = GetSetDescriptorType.__dict__["__objclass__"].__get__
_member_owner = MemberDescriptorType.__dict__["__objclass__"].__get__
public_names: dict[int, str] = {}  # by the id of a class: where a library shows it, if that is not where it is written
_static_names: dict[int, str] = {}  # by the id of a class that is part of the interpreter or a library: it never goes
_replace_surrogates = re.compile("[\ud800-\udfff]").sub


def is_a(thing: object, wanted: type) -> bool:
    """Return whether `wanted` is among the real ancestors of the thing's real type."""
    return any(ancestor is wanted for ancestor in mro(type(thing)))


def all_are(kind: Any, things: Any) -> bool:
    """Return whether all are of exactly this type; many times quicker than to ask one after the other."""
    return all(map(is_, map(type, things), repeat(kind)))


def unforgeable(kind: type) -> bool:
    """Return whether a class was written in C and cannot be changed: its name and its descriptors are its own."""
    flags = _flags(kind)
    return not flags & _HEAP or bool(flags & _IMMUTABLE)


def text(value: Any, limit: int = 100) -> str:
    """Return a plain str that any JSON encoder takes, from a str or a subclass of it; `?` from anything else."""
    if not is_a(value, str):
        return "?"
    return _replace_surrogates("\ufffd", str.__getitem__(value, slice(0, limit)))


def class_items(kind: type) -> Any:
    """Return the pairs of a class's own dictionary."""
    return _items(_class_dict(kind))


def entry(pairs: Any, wanted: str, most: int = _ENTRIES) -> Any:
    """Return the value beside an exact str key among the first pairs; None where there is none."""
    for key, value in islice(pairs, most):
        if type(key) is str and key == wanted:
            return value
    return None


def short_name(kind: type) -> str:
    """Return the name of a class alone: `Invoice`."""
    return text(_name(kind))


def type_name(kind: type) -> str:
    """Return the name of a class with its module, if that is not `builtins`: `__main__.Invoice`."""
    if (known := public_names.get(id(kind)) or _static_names.get(id(kind))) is not None:
        return known
    module = entry(class_items(kind), "__module__")
    static = not _flags(kind) & _HEAP
    if module is None and static:
        module = _module(kind)
    name = text(_qualified(kind))
    name = name if text(module) in ("builtins", "?") else f"{text(module)}.{name}"
    if static:
        _static_names[id(kind)] = name
    return name


def class_entry(kind: type, wanted: str) -> Any:
    """Return what the nearest class in the order of resolution holds under a name, not bound to anything."""
    for ancestor in mro(kind):
        found = entry(class_items(ancestor), wanted)
        if found is not None:
            return found
    return None


def instance_dict(thing: object) -> Any:
    """Return the dictionary of an instance (perhaps of a subclass of dict: iterate it with `dict.items`), or None."""
    for ancestor in mro(type(thing)):
        found = entry(class_items(ancestor), "__dict__")
        genuine = type(found) is GetSetDescriptorType and _getset_owner(found) is ancestor
        if genuine and _getset_name(found) == "__dict__":
            held = _getset(found, thing)
            return held if is_a(held, dict) else None
    return None


def attribute(thing: object, wanted: str) -> Any:
    """Return what an instance's own dictionary holds under a name; None where there is nothing."""
    held = instance_dict(thing)
    return None if held is None else entry(dict.items(held), wanted)


def slots(thing: object) -> Iterator[tuple[str, Any]]:
    """Yield the `__slots__` of an instance that are filled, oldest ancestor first."""
    for ancestor in reversed(mro(type(thing))):
        if not _flags(ancestor) & _HEAP:
            continue
        for key, value in list(islice(class_items(ancestor), _ENTRIES)):
            if type(key) is str and type(value) is MemberDescriptorType and _member_owner(value) is ancestor:
                try:
                    held = _member(value, thing)
                except AttributeError:  # an empty slot
                    continue
                yield key, held


def fields(thing: object) -> Iterator[tuple[str, Any]]:
    """Return the attributes of an instance: slots and dictionary, without names that begin with two underscores."""
    for name, value in slots(thing):
        if not name.startswith("__"):
            yield text(name), value
    held = instance_dict(thing)
    if held is not None:
        for key, value in islice(dict.items(held), _ENTRIES):
            if type(key) is str and not key.startswith("__"):
                yield text(key), value
