"""Previews of numpy arrays and scalars and of pandas frames.

numpy's classes are written in C and cannot be changed, so they are recognised whenever they turn up. pandas is Python
that a cell can patch: what is needed of it is taken by `prime()` before any cell runs, and only the fields beneath its
methods are read: manager, blocks, axes.
"""

from __future__ import annotations

import builtins
import sys
from types import ModuleType
from typing import Any

from . import reflection
from .previews import Sketch, register

globals()["__builtins__"] = dict(vars(builtins))  # see reflection.py

_KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}
_EXTENSIONS = {"StringArray": "str", "ArrowStringArray": "str", "Categorical": "category", "PeriodArray": "period"}
_COLUMNS = 200  # how many columns of a frame a preview looks at

_modules: dict[str, Any] = sys.modules
_module_dict = vars(ModuleType)["__dict__"].__get__
_taken: dict[str, Any] = {}  # classes of numpy and unbound C functions of both, under names of our own


def prime() -> None:
    """Take what is needed of numpy and pandas, if they are loaded. Call it before untrusted code runs."""
    recognise_numpy()
    pandas = _modules.get("pandas")
    if pandas is None or "ndarray" not in _taken:
        return
    for name in ("DataFrame", "Series", "Index", "Timestamp", "Timedelta"):
        reflection.public_names[id(getattr(pandas, name))] = f"pandas.{name}"
    register(pandas.DataFrame, _frame, lambda frame: [_length(axis) for axis in reversed(_manager(frame)[1])])
    register(pandas.Series, _series, lambda series: [_length(_manager(series)[1][0])])
    register(pandas.Index, _index, lambda index: [_length(index)])
    register(type(pandas.NaT), lambda sketch, _: sketch.add("NaT"))
    try:
        internals, arrays = _modules["pandas._libs.internals"], _modules["pandas._libs.arrays"]
        _taken.update(
            blocks=_getter(internals.BlockManager, "blocks"),
            axes=_getter(internals.BlockManager, "axes"),
            values=_getter(internals.Block, "values"),
            places=_getter(internals.Block, "_mgr_locs"),
            indexer=_getter(internals.BlockPlacement, "indexer"),
            backing=_getter(arrays.NDArrayBacked, "_ndarray"),
        )
    except (KeyError, AttributeError):  # a pandas built otherwise: a frame is drawn as its name
        return
    arrow = getattr(_modules.get("pyarrow.lib"), "ChunkedArray", None)  # where it is installed, pandas keeps text in it
    if arrow is not None:
        _taken.update(arrow=arrow, arrow_length=arrow.__len__, arrow_slice=arrow.slice, arrow_list=arrow.to_pylist)


def recognise_numpy() -> None:
    """Take what is needed of numpy once it is loaded, be it by a cell: only what no Python code can have made."""
    if "ndarray" in _taken:
        return
    try:
        module = reflection.entry(dict.items(_modules), "numpy", 100_000)
    except RuntimeError:  # a thread of the cell is importing: the next snapshot finds out
        return
    if type(module) is not ModuleType:
        return
    kinds = {}
    for name in ("ndarray", "flatiter", "dtype", "generic", "datetime64", "timedelta64"):
        kind = kinds[name] = reflection.entry(dict.items(_module_dict(module)), name)
        if (
            not reflection.is_a(kind, type)
            or not reflection.unforgeable(kind)
            or reflection.type_name(kind) != f"numpy.{name}"
        ):
            return
    array, flat, dtype, generic, moment, delta = kinds.values()
    _taken.update(
        kinds,
        shape=_getter(array, "shape"),
        count=_getter(array, "size"),
        array_dtype=_getter(array, "dtype"),
        scalar_dtype=_getter(generic, "dtype"),
        letter=_getter(dtype, "kind"),
        width=_getter(dtype, "itemsize"),
        code=_getter(dtype, "str"),
        flat=_getter(array, "flat"),
        part=flat.__getitem__,
        tolist=array.tolist,
        astype=array.astype,
        item=generic.item,
    )
    register(array, _array, lambda thing: list(_taken["shape"](thing)), wrapped=False)
    register(generic, _scalar)
    for kind in (moment, delta):
        register(kind, _text(kind.__str__))


def _getter(kind: type, name: str) -> Any:
    return reflection.class_entry(kind, name).__get__


def _text(method: Any) -> Any:
    return lambda sketch, thing: sketch.add(f"{reflection.short_name(type(thing))}({method(thing)})")


def number(thing: object) -> Any:
    """Return the plain value of a numpy number or bool, None for anything else."""
    kind = type(thing)
    if not reflection.unforgeable(kind) or not any(
        ancestor is _taken.get("generic") for ancestor in reflection.mro(kind)
    ):
        return None
    if _taken["letter"](_taken["scalar_dtype"](thing)) not in _KINDS:
        return None
    value = _taken["item"](thing)
    return value if type(value) in (bool, int, float, complex) else None  # not so for a long double


def _scalar(sketch: Sketch, thing: Any) -> None:
    value = number(thing)
    sketch.add("?") if value is None else sketch.show(value)


def _dtype_name(array: Any) -> str:
    dtype = _taken["array_dtype"](array)
    letter, width = _taken["letter"](dtype), _taken["width"](dtype)
    if letter in _KINDS:
        return "bool" if letter == "b" else f"{_KINDS[letter]}{8 * width}"
    if letter in ("M", "m"):
        return ("datetime64" if letter == "M" else "timedelta64") + str(_taken["code"](dtype))[3:]
    names = {"O": "object", "V": "record", "T": "str", "U": f"U{width // 4}", "S": f"S{width}"}
    return names.get(letter, "?")


def _first(array: Any, count: int) -> list[Any]:
    """Return the first values of an array. Objects are moved, not looked at: whoever draws them does so with care."""
    if type(array) is range:
        return list(array[:count])
    if type(array) is _taken.get("arrow"):
        return list(_taken["arrow_list"](_taken["arrow_slice"](array, 0, count)))
    letter = _taken["letter"](_taken["array_dtype"](array))
    if type(array) is not _taken["ndarray"] or letter not in ("b", "i", "u", "f", "c", "U", "S", "M", "O"):
        return []  # cutting a subclass would run its `__array_finalize__`
    few = _taken["part"](_taken["flat"](array), slice(0, count))
    return list(_taken["tolist"](_taken["astype"](few, "U") if letter == "M" else few))


def _array(sketch: Sketch, array: Any) -> None:
    sketch.add(f"{reflection.short_name(type(array))}{_taken['shape'](array)} {_dtype_name(array)}")
    _values(sketch, array)


def _values(sketch: Sketch, array: Any) -> None:
    few = _first(array, min(sketch.room, _COLUMNS))
    if few:
        sketch.add(": ")
        sketch.series(few)
        if len(few) < _count(array):
            sketch.add(", …")


def _count(array: Any) -> int:
    if type(array) is range:
        return len(array)
    return int(_taken["arrow_length"](array) if type(array) is _taken.get("arrow") else _taken["count"](array))


def _manager(frame: Any) -> tuple[tuple[Any, ...], list[Any]]:
    """Return the blocks and the axes of a frame or a series."""
    manager = reflection.attribute(frame, "_mgr")
    try:
        blocks, axes = _taken["blocks"](manager), _taken["axes"](manager)
    except TypeError:  # that of a series has them in its dictionary
        blocks, axes = reflection.attribute(manager, "blocks"), reflection.attribute(manager, "axes")
    return tuple.__getitem__(blocks, slice(None)), list.__getitem__(axes, slice(None))


def _backing(thing: Any, depth: int = 4) -> Any:
    """Return the numpy array, range or arrow array in which an index or extension array has its values or codes."""
    kind = type(thing)
    if kind is _taken["ndarray"] or kind is range or kind is _taken.get("arrow"):
        return thing
    if not depth:
        raise TypeError("no array behind this")
    try:
        return _backing(_taken["backing"](thing), depth - 1)
    except TypeError:
        pass
    if reflection.is_a(thing, list):  # the codes of a MultiIndex
        return _backing(list.__getitem__(thing, 0), depth - 1)
    for name in ("_range", "_data", "_codes", "_left", "_pa_array"):
        held = reflection.attribute(thing, name)
        if held is not None:
            return _backing(held, depth - 1)
    raise TypeError("no array behind this")


def _length(index: Any) -> int:
    backing = _backing(index)
    return int(_taken["shape"](backing)[0]) if type(backing) is _taken["ndarray"] else _count(backing)


def _column_type(values: Any) -> str:
    if type(values) is _taken["ndarray"]:
        return _dtype_name(values)
    name = reflection.short_name(type(values))
    if name in _EXTENSIONS:
        return _EXTENSIONS[name]
    backing = _backing(values)
    if type(backing) is not _taken["ndarray"]:
        return name
    beneath = _dtype_name(backing)
    return beneath.capitalize() if name in ("IntegerArray", "FloatingArray", "BooleanArray") else beneath


def _shown(values: Any) -> Any:
    """Return the array of an index or a column, where it has the values themselves and not codes; else None."""
    kept = type(values) is _taken["ndarray"] or type(values) is range
    kept = kept or reflection.short_name(type(values)) in ("StringArray", "ArrowStringArray", "DatetimeArray")
    return _backing(values) if kept else None


def _labels(index: Any) -> list[Any]:
    span = reflection.attribute(index, "_range")
    shown = _shown(reflection.attribute(index, "_data") if span is None else span)
    return [] if shown is None else _first(shown, _COLUMNS)


def _frame(sketch: Sketch, frame: Any) -> None:
    blocks, (columns, rows) = _manager(frame)
    width = _length(columns)
    sketch.add(f"{_length(rows):,} rows x {width:,} columns")
    types: dict[int, str] = {}
    for block in blocks[:_COLUMNS]:
        places = _taken["indexer"](_taken["places"](block))
        where = range(width)[places] if type(places) is slice else _taken["tolist"](places)
        types.update(dict.fromkeys(where[:_COLUMNS], _column_type(_taken["values"](block))))
    for number, label in enumerate(_labels(columns)):
        sketch.add(", " if number else ": ")
        if type(label) is str:
            sketch.add(reflection.text(label))
        else:
            sketch.show(label)
        sketch.add(f" {types.get(number, '?')}")


def _series(sketch: Sketch, series: Any) -> None:
    blocks, axes = _manager(series)
    values = _taken["values"](blocks[0])
    sketch.add(f"{_length(axes[0]):,} rows {_column_type(values)}")
    shown = _shown(values)
    if shown is not None:
        _values(sketch, shown)


def _index(sketch: Sketch, index: Any) -> None:
    sketch.add(f"{_length(index):,} labels")
    labels = _labels(index)
    if labels:
        sketch.add(": ")
        sketch.series(labels)
