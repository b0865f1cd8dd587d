"""Previews of built-in and standard library types, made with the C methods of those types alone."""

from __future__ import annotations

import builtins
import enum
import pathlib
import re
import types
from collections import deque
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any
from uuid import UUID

from . import reflection
from .positions import Positions
from .previews import Draw, Sketch, register
from .views import TextView

globals()["__builtins__"] = dict(vars(builtins))  # see reflection.py

_LONG_INT_BITS = 1000  # fewer digits than the lowest limit a cell can set on int to str
_SHORT_INT = (1 << _LONG_INT_BITS) - 1
_LONG_DECIMAL_BYTES = 4096


def _getters(kind: type, *names: str) -> list[Any]:
    return [kind.__dict__[name].__get__ for name in names]


_CLOCK = ("hour", "minute", "second", "microsecond", "tzinfo")
_DATE = _getters(date, "year", "month", "day")
_DATETIME = _DATE + _getters(datetime, *_CLOCK)
_TIME = _getters(time, *_CLOCK)
_DELTA = _getters(timedelta, "days", "seconds", "microseconds")
_FRACTION = _getters(Fraction, "_numerator", "_denominator")
_decimal_text, _decimal_bytes = Decimal.__str__, Decimal.__sizeof__
(_uuid_int,) = _getters(UUID, "int")
(_pattern_text,) = _getters(re.Pattern, "pattern")
(_exception_args,) = _getters(BaseException, "args")
(_module_dict,) = _getters(types.ModuleType, "__dict__")
(_builtin_name,) = _getters(types.BuiltinFunctionType, "__name__")
(_method_function,) = _getters(types.MethodType, "__func__")
_function_name, _function_code, _function_defaults = _getters(
    types.FunctionType, "__name__", "__code__", "__defaults__"
)
_code_names, _code_positional, _code_keyword, _code_flags = _getters(
    types.CodeType, "co_varnames", "co_argcount", "co_kwonlyargcount", "co_flags"
)
(_view_positions,) = _getters(TextView, "_at")
(_positions_buffer,) = _getters(Positions, "buffer")


def _instance(sketch: Sketch, thing: object) -> None:
    name, held = reflection.short_name(type(thing)), reflection.fields(thing)
    first = next(held, None)
    if first is None:
        return sketch.add(f"<{name}>")
    sketch.add(name + "(")
    sketch.field(first)
    for item in held:
        sketch.add(", ")
        sketch.field(item)
    return sketch.add(")")


def _enum(sketch: Sketch, thing: object) -> None:
    sketch.add(f"<{reflection.short_name(type(thing))}.{reflection.text(reflection.attribute(thing, '_name_'))}: ")
    sketch.show(reflection.attribute(thing, "_value_"))
    sketch.add(">")


def _int(sketch: Sketch, number: Any) -> None:
    bits = int.bit_length(number)
    sketch.add(f"<int of {bits:,} bits>" if bits > _LONG_INT_BITS else int.__repr__(number))


def _repr(kind: Any) -> Draw:
    return lambda sketch, thing: sketch.add(kind.__repr__(thing))


def _beginning(kind: Any) -> Draw:
    """Draw a text or bytes by as much of its beginning as there is room for."""
    return lambda sketch, thing: sketch.add(kind.__repr__(kind.__getitem__(thing, slice(0, sketch.room + 1))))


def _list(sketch: Sketch, items: Any) -> None:
    few = list.__getitem__(items, slice(0, sketch.room // 3 + 2))  # more than there is room for, if these are not all
    if _are_short_numbers(few):
        return sketch.add(repr(few))
    sketch.add("[")
    sketch.series(list.__getitem__(items, slice(0, sketch.room + 1)))
    return sketch.add("]")


def _are_short_numbers(items: list[Any]) -> bool:
    """Return whether Python's own text for them is what would be drawn, item by item."""
    kind = type(items[0]) if items else None
    if not (kind is int or kind is float) or not reflection.all_are(kind, items):
        return False
    return kind is float or (max(items) <= _SHORT_INT and min(items) >= -_SHORT_INT)


def _tuple(sketch: Sketch, items: Any) -> None:
    few = tuple.__getitem__(items, slice(0, sketch.room + 1))
    names = None if type(items) is tuple else reflection.class_entry(type(items), "_fields")
    if type(names) is tuple and len(names) >= len(few) > 0:  # a named tuple stands in its class's name already
        return sketch.series(
            [(reflection.text(name), item) for name, item in zip(names, few, strict=False)], sketch.field
        )
    sketch.add("(")
    sketch.series(few)
    return sketch.add(",)" if len(few) == 1 else ")")


def _deque(sketch: Sketch, items: Any) -> None:
    sketch.add("deque([")
    sketch.series(deque.__iter__(items))
    sketch.add("])")


def _dict(sketch: Sketch, items: Any) -> None:
    sketch.add("{")
    sketch.series(dict.items(items), sketch.entry)
    sketch.add("}")


def _set(sketch: Sketch, items: Any) -> None:
    if not set.__len__(items):
        return sketch.add("set()")
    sketch.add("{")
    sketch.series(set.__iter__(items))
    return sketch.add("}")


def _frozenset(sketch: Sketch, items: Any) -> None:
    sketch.add("frozenset({")
    sketch.series(frozenset.__iter__(items))
    sketch.add("})")


def _moment(kind: Any, getters: list[Any]) -> Draw:
    """Draw a date or a time from its own fields: its `isoformat` would ask a time zone that may be anyone's class."""

    def draw(sketch: Sketch, thing: Any) -> None:
        *held, zone = [get(thing) for get in getters] + ([None] if kind is date else [])
        if zone is None:
            return sketch.add(kind(*held).isoformat())
        if type(zone) is timezone:
            return sketch.add(kind(*held, tzinfo=zone).isoformat())
        return sketch.add(f"{kind(*held).isoformat()} {reflection.short_name(type(zone))}")

    return draw


def _timedelta(sketch: Sketch, thing: Any) -> None:
    sketch.add(str(timedelta(*[get(thing) for get in _DELTA])))


def _decimal(sketch: Sketch, thing: Any) -> None:
    held = _decimal_bytes(thing)
    long = held > _LONG_DECIMAL_BYTES
    sketch.add(f"<Decimal of {held:,} bytes>" if long else f"Decimal('{_decimal_text(thing)}')")


def _fraction(sketch: Sketch, thing: Any) -> None:
    sketch.add("Fraction(")
    sketch.series([get(thing) for get in _FRACTION])
    sketch.add(")")


def _uuid(sketch: Sketch, thing: Any) -> None:
    digits = f"{int.__index__(_uuid_int(thing)):032x}"[:32]
    sketch.add(f"UUID('{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}')")


def _path(sketch: Sketch, thing: Any) -> None:
    held = dict(reflection.slots(thing))
    segments: Any = held.get("_raw_paths", held.get("_parts"))  # 3.12 and later; 3.11
    whole = ""
    for segment in list.__getitem__(segments, slice(0, 100)):
        part = reflection.text(segment, 1000)
        whole = part if part.startswith("/") or not whole else f"{whole.removesuffix('/')}/{part}"
    sketch.show(whole or ".")


def _pattern(sketch: Sketch, thing: Any) -> None:
    sketch.add("re.compile(")
    sketch.show(_pattern_text(thing))
    sketch.add(")")


def _exception(sketch: Sketch, thing: Any) -> None:
    sketch.add(reflection.short_name(type(thing)) + "(")
    sketch.series(tuple.__getitem__(_exception_args(thing), slice(0, sketch.room + 1)))
    sketch.add(")")


def _function(sketch: Sketch, thing: Any) -> None:
    code, name = _function_code(thing), reflection.text(_function_name(thing))
    names, flags = iter(_code_names(code)), _code_flags(code)
    required = _code_positional(code) - len(_function_defaults(thing) or ())
    shown = [reflection.text(each) for each in islice(names, _code_positional(code))]
    shown[required:] = [f"{each}=…" for each in shown[required:]]
    keywords = [reflection.text(each) for each in islice(names, _code_keyword(code))]
    if flags & 0x04:  # CO_VARARGS
        shown.append("*" + reflection.text(next(names)))
    elif keywords:
        shown.append("*")
    shown += keywords
    if flags & 0x08:  # CO_VARKEYWORDS
        shown.append("**" + reflection.text(next(names)))
    start = "async def" if flags & 0x280 else "def"  # CO_COROUTINE, CO_ASYNC_GENERATOR
    sketch.add(f"lambda {', '.join(shown)}" if name == "<lambda>" else f"{start} {name}({', '.join(shown)})")


def _method(sketch: Sketch, thing: Any) -> None:
    sketch.add("method ")
    sketch.show(_method_function(thing))


def _class(sketch: Sketch, thing: type) -> None:
    above = ", ".join([reflection.short_name(base) for base in reflection.bases(thing)[:10] if base is not object])
    sketch.add(f"class {reflection.short_name(thing)}" + (f"({above})" if above else ""))


def _module(sketch: Sketch, thing: Any) -> None:
    sketch.add(f"module {reflection.text(reflection.entry(dict.items(_module_dict(thing)), '__name__'))}")


def _named(word: str, kind: type) -> Draw:
    (name,) = _getters(kind, "__name__")
    return lambda sketch, thing: sketch.add(f"<{word} {reflection.text(name(thing))}>")


def _view(sketch: Sketch, thing: Any) -> None:
    buffer = _positions_buffer(_view_positions(thing))
    beginning = memoryview.tobytes(memoryview.__getitem__(buffer, slice(0, 4 * sketch.room)))
    sketch.add("<TextView: ")
    sketch.show(beginning.decode("utf-8", "replace"))
    sketch.add(">")


def register_all() -> None:
    """Put every kind of this module into the table."""
    register(object, _instance, wrapped=False)
    register(enum.Enum, _enum, wrapped=False)
    for plain in (type(None), bool, float, complex):
        register(plain, _repr(plain))
    register(range, _repr(range), range.__len__)
    register(int, _int)
    register(str, _beginning(str), str.__len__)
    register(bytes, _beginning(bytes), bytes.__len__)
    register(bytearray, _beginning(bytearray), bytearray.__len__)
    register(list, _list, list.__len__)
    register(tuple, _tuple, tuple.__len__)
    register(deque, _deque, deque.__len__)
    register(dict, _dict, dict.__len__)
    register(set, _set, set.__len__)
    register(frozenset, _frozenset, frozenset.__len__)
    register(date, _moment(date, _DATE))
    register(datetime, _moment(datetime, _DATETIME))
    register(time, _moment(time, _TIME))
    register(timedelta, _timedelta)
    register(Decimal, _decimal)
    register(Fraction, _fraction)
    register(UUID, _uuid)
    register(pathlib.PurePath, _path)
    for name in ("Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath"):
        reflection.public_names[id(getattr(pathlib, name))] = f"pathlib.{name}"  # written in `pathlib._local` in 3.13
    register(re.Pattern, _pattern)
    register(BaseException, _exception, wrapped=False)
    register(types.FunctionType, _function)
    register(types.MethodType, _method)
    register(type, _class, wrapped=False)
    register(types.ModuleType, _module, wrapped=False)
    register(types.BuiltinFunctionType, _named("built-in", types.BuiltinFunctionType))
    register(types.GeneratorType, _named("generator", types.GeneratorType))
    register(types.CoroutineType, _named("coroutine", types.CoroutineType))
    register(types.AsyncGeneratorType, _named("async generator", types.AsyncGeneratorType))
    register(TextView, _view)
