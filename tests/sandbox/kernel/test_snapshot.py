from __future__ import annotations

import codecs
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import pathlib
import re
import subprocess
import sys
import threading
import types
import uuid
from typing import Any

import hypothesis.strategies as st
import numpy
import pandas
import pytest
from hypothesis import given, settings

from sandbox.kernel import previews
from sandbox.kernel import snapshot as module
from sandbox.kernel.snapshot import prime, snapshot
from sandbox.kernel.views import TextView

prime()


def take(namespace: dict[Any, Any], **options: Any) -> dict[str, Any]:
    """A snapshot that is plain JSON and holds the form that the host expects."""
    result = snapshot(namespace, skip=options.pop("skip", frozenset()), **options)
    encoded = json.dumps(result, allow_nan=False, ensure_ascii=False).encode("utf-8")
    assert json.loads(encoded) == result
    for variable in result["variables"]:
        assert set(variable) - {"value"} == {"name", "type", "size", "preview", "has_value"}
        assert ("value" in variable) == variable["has_value"]
        assert len(variable["preview"]) <= options.get("preview_chars", 200)
    return result


def look(thing: object, **options: Any) -> dict[str, Any]:
    (variable,) = take({"x": thing}, **options)["variables"]
    return dict(variable)


class Trap:
    """Classes whose every method and property is recorded when it runs; armed once the objects are made."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.armed = False

    def method(self, name: str) -> Any:
        def sprung(*arguments: Any, **keywords: Any) -> Any:
            self.ran.append(name)
            raise AssertionError(name)

        return sprung

    def subclass(self, base: type) -> type:
        trap = self

        def lie(thing: object) -> type:
            if trap.armed:
                trap.ran.append("__class__")
            return type(thing)

        return type(base)(f"Evil{base.__name__}", (base,), {"__class__": property(lie)})

    def arm(self, *kinds: type) -> None:
        for kind in kinds:
            for name in METHODS:
                type.__setattr__(kind, name, self.method(name))
            for name in PROPERTIES:
                type.__setattr__(kind, name, property(self.method(name)))
        self.ran.clear()
        self.armed = True


NAMES = """
__getattribute__ __getattr__ __repr__ __str__ __format__ __len__ __iter__ __next__ __eq__ __ne__ __lt__ __hash__
__bool__ __reduce__ __reduce_ex__ __getitem__ __contains__ __int__ __index__ __float__ __complex__ __bytes__ __dir__
__sizeof__ __length_hint__ __reversed__ __call__ __get__ __array__ __array_finalize__ __buffer__ __fspath__ __add__
__radd__ __neg__ __pos__ __abs__ __trunc__ __copy__ __deepcopy__ __getstate__ __instancecheck__ __missing__ __iadd__
items keys values get copy isoformat utcoffset tzname bit_length item tolist encode split _repr_html_ _asdict as_tuple
is_integer hex model_dump
"""
METHODS = NAMES.split()
PROPERTIES = ["args", "shape", "dtype", "dtypes", "size", "flat", "columns", "axes", "year", "tzinfo", "numerator"]

BASES: dict[type, Any] = {
    object: lambda kind: kind(),
    int: lambda kind: kind(7),
    float: lambda kind: kind(1.5),
    complex: lambda kind: kind(1, 2),
    str: lambda kind: kind("text"),
    bytes: lambda kind: kind(b"raw"),
    bytearray: lambda kind: kind(b"raw"),
    list: lambda kind: kind([1, 2]),
    tuple: lambda kind: kind([1, 2]),
    dict: lambda kind: kind(a=1),
    set: lambda kind: kind([1]),
    frozenset: lambda kind: kind([1]),
    collections.deque: lambda kind: kind([1]),
    collections.Counter: lambda kind: kind("aab"),
    collections.OrderedDict: lambda kind: kind(a=1),
    collections.defaultdict: lambda kind: kind(list, a=1),
    datetime.date: lambda kind: kind(2024, 1, 2),
    datetime.datetime: lambda kind: kind(2024, 1, 2, 3),
    datetime.time: lambda kind: kind(3, 4),
    datetime.timedelta: lambda kind: kind(1),
    decimal.Decimal: lambda kind: kind("1.5"),
    fractions.Fraction: lambda kind: kind(1, 3),
    uuid.UUID: lambda kind: kind(int=1),
    pathlib.PurePosixPath: lambda kind: kind("/a/b"),
    ValueError: lambda kind: kind("bad"),
    types.ModuleType: lambda kind: kind("mod"),
    numpy.ndarray: lambda kind: numpy.arange(3).view(kind),
    numpy.float64: lambda kind: kind(1.5),
    numpy.str_: lambda kind: kind("q"),
    pandas.DataFrame: lambda kind: kind({"a": [1]}),
    pandas.Series: lambda kind: kind([1]),
    TextView: lambda kind: kind(b"abc"),
}


def test_the_trap_of_these_tests_is_sprung_by_ordinary_code() -> None:
    for touch in (repr, len, hash, iter, bool, lambda thing: thing.x, lambda thing: thing == 1):
        trap = Trap()
        kind = trap.subclass(list)
        thing = kind()
        trap.arm(kind)
        with pytest.raises(AssertionError):
            touch(thing)
        assert trap.ran
    trap = Trap()
    trap.armed = True
    assert not isinstance(trap.subclass(list)(), str)
    assert trap.ran == ["__class__"]


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.__name__)
def test_no_method_of_a_subclass_runs(base: type) -> None:
    trap = Trap()
    kind = trap.subclass(base)
    thing = BASES[base](kind)
    trap.arm(kind)
    namespace = {"x": thing, "inside": [thing, {"k": thing}, (thing,)], "kind": kind, "array": numpy.empty(1, object)}
    namespace["array"][0] = thing
    trap.ran.clear()
    result = take(namespace)
    assert trap.ran == []
    assert result["complete"]
    assert result["variables"][0]["type"].endswith(f"Evil{base.__name__}")
    assert not result["variables"][0]["has_value"]


@pytest.mark.parametrize(
    ("base", "preview", "size"),
    [
        (int, "Evilint(7)", None),
        (str, "Evilstr('text')", 4),
        (list, "Evillist([1, 2])", 2),
        (tuple, "Eviltuple((1, 2))", 2),
        (dict, "Evildict({'a': 1})", 1),
        (datetime.datetime, "Evildatetime(2024-01-02T03:00:00)", None),
        (decimal.Decimal, "EvilDecimal(Decimal('1.5'))", None),
        (ValueError, "EvilValueError('bad')", None),
        (pandas.DataFrame, "EvilDataFrame(1 rows x 1 columns: a int64)", [1, 1]),
        (numpy.ndarray, "Evilndarray(3,) int64", [3]),
    ],
)
def test_an_instance_of_a_subclass_is_drawn_as_its_base_value_in_its_own_name(
    base: type, preview: str, size: object
) -> None:
    trap = Trap()
    kind = trap.subclass(base)
    thing = BASES[base](kind)
    trap.arm(kind)
    variable = look(thing)
    assert (variable["preview"], variable["size"], trap.ran) == (preview, size, [])


def test_a_metaclass_whose_every_method_raises_is_not_asked() -> None:
    ran: list[str] = []

    def recorded(name: str) -> Any:
        def method(*_: Any, **__: Any) -> Any:
            ran.append(name)
            raise AssertionError(name)

        return method

    names = [*METHODS, "__subclasscheck__", "__setattr__", "__subclasses__"]
    properties = ["__name__", "__module__", "__dict__", "__mro__", "__bases__", "__class__", "__doc__"]
    body: dict[str, Any] = {name: recorded(name) for name in names}
    meta = type("Meta", (type,), body | {name: property(recorded(name)) for name in properties})
    kind: Any = type.__new__(meta, "Odd", (), {"__slots__": ("a",), "__module__": "somewhere"})
    thing = object.__new__(kind)
    namespace = {"x": thing, "kind": kind, "meta": meta, "pair": [thing, kind]}
    ran.clear()
    first, second, third, _ = take(namespace)["variables"]
    assert ran == []
    assert (first["type"], first["preview"]) == ("somewhere.Odd", "<Odd>")
    assert second["preview"] == "class Odd"
    assert third["preview"] == "class Meta(type)"


def test_attributes_are_read_without_properties_and_descriptors() -> None:
    ran: list[str] = []

    class Loud:
        def __init__(self) -> None:
            self.__dict__["plain"] = 1
            self.__dict__["shadowed"] = 2

        @property
        def shadowed(self) -> int:
            ran.append("shadowed")
            return 0

        def __getattribute__(self, name: str) -> Any:
            if name != "__dict__":
                ran.append(name)
            return object.__getattribute__(self, name)

    assert look(Loud())["preview"] == "Loud(plain=1, shadowed=2)"
    assert ran == []


def test_a_dict_attribute_that_is_not_the_real_one_is_not_used() -> None:
    ran: list[str] = []

    class Liar:
        @property
        def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
            ran.append("__dict__")
            return {"a": 1}

    class Borrower(Exception):
        __dict__ = BaseException.__dict__["args"]

    assert look(Liar())["preview"] == "<Liar>"
    assert look(Borrower("a"))["preview"] == "Borrower('a')"
    assert ran == []


def test_slots_are_read_and_empty_ones_left_out() -> None:
    class Base:
        __slots__ = ("a",)

    class Derived(Base):
        __slots__ = ("b", "c")

    thing: Any = Derived()
    thing.a, thing.c = 1, [2]
    assert look(thing)["preview"] == "Derived(a=1, c=[2])"


def test_a_proxy_that_lies_about_its_class_is_seen_through() -> None:
    class Proxy:
        __class__ = str  # type: ignore[assignment]

    variable = look(Proxy())
    assert variable["type"].endswith("Proxy")
    assert not variable["has_value"]


def test_keys_are_never_compared_or_hashed() -> None:
    ran: list[str] = []

    class Key(str):
        __slots__ = ()

        def __hash__(self) -> int:
            ran.append("hash")
            return str.__hash__(self)

        def __eq__(self, other: object) -> bool:
            ran.append("eq")
            return False

    class Holder:
        pass

    holder = Holder()
    holder.__dict__[Key("_mgr")] = 1
    frame = pandas.DataFrame({"a": [1]})
    frame.__dict__.clear()
    frame.__dict__[Key("_mgr")] = 1
    kind = type("Kind", (), {Key("__module__"): 1, Key("__dict__"): 2, Key("_fields"): 3})
    namespace: dict[Any, Any] = {"holder": holder, "frame": frame, "thing": kind(), "kind": kind, "d": {Key("k"): 1}}
    namespace[Key("skipped")] = 1
    ran.clear()
    result = snapshot(namespace, skip=frozenset({"skipped"}))
    assert ran == []
    assert result["omitted"] == 1
    assert {each["name"]: each["preview"] for each in result["variables"]}["frame"] == "<DataFrame>"


def test_names_that_are_subclasses_of_str_are_not_trusted() -> None:
    ran: list[str] = []

    class Name(str):
        def __getattribute__(self, name: str) -> Any:
            ran.append(name)
            return str.__getattribute__(self, name)

        def __str__(self) -> str:
            ran.append("str")
            return "x"

    def function() -> None: ...

    function.__name__ = Name("renamed\ud800")
    kind = type(Name("Kind" * 1000), (), {"__module__": Name("m\udfff"), "__qualname__": Name("Kind" * 1000)})
    ran.clear()
    first, second, third = take({"function": function, "kind": kind, "thing": kind()})["variables"]
    assert ran == []
    assert first["preview"] == "def renamed\ufffd()"
    assert len(second["preview"]) <= 200
    assert third["type"].startswith("m\ufffd.Kind")


def test_a_time_zone_is_not_asked() -> None:
    ran: list[str] = []

    class Zone(datetime.tzinfo):
        dst = tzname = None  # type: ignore[assignment]

        def utcoffset(self, moment: Any) -> Any:
            ran.append("utcoffset")

    assert look(datetime.datetime(2024, 1, 2, tzinfo=Zone()))["preview"] == "2024-01-02T00:00:00 Zone"
    assert look(datetime.time(1, tzinfo=Zone()))["preview"] == "01:00:00 Zone"
    assert ran == []


@pytest.mark.parametrize("what", ["builtins", "libraries"])
def test_patching_builtins_and_libraries_changes_nothing(what: str) -> None:
    """In a process of its own: here, other threads would fall over what is patched, pytest's among them."""
    command = [sys.executable, "-m", "tests.support.patched_libraries", what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_a_codec_error_handler_of_the_cell_is_not_called() -> None:
    ran: list[str] = []

    def evil(error: UnicodeError) -> Any:
        ran.append("strict")
        raise error

    codecs.register_error("strict", evil)
    try:
        result = snapshot({"a": "lone \ud800", "lone \udfff": 1}, skip=frozenset())
    finally:
        codecs.register_error("strict", codecs.strict_errors)
    assert ran == []
    assert [variable["has_value"] for variable in result["variables"]] == [False, True]


def test_numpy_is_recognised_when_a_cell_loads_it_and_a_forgery_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    from sandbox.kernel import array_previews

    taken = dict(array_previews._taken)
    monkeypatch.setattr(array_previews, "_taken", {})
    forged = types.ModuleType("numpy")
    forged.ndarray = type("ndarray", (), {"__module__": "numpy"})  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "numpy", forged)
        array_previews.recognise_numpy()
        assert array_previews._taken == {}
    array_previews.recognise_numpy()
    assert array_previews._taken["ndarray"] is taken["ndarray"]


class Colour(enum.IntEnum):
    RED = 1


class Word(enum.StrEnum):
    YES = "y"


@dataclasses.dataclass
class Invoice:
    number: int
    lines: list[str]


Point = collections.namedtuple("Point", "x y")


class Model:
    """Laid out as pydantic lays out its models."""

    __slots__ = "__dict__", "__pydantic_extra__"

    def __init__(self, **fields: Any) -> None:
        object.__setattr__(self, "__dict__", fields)
        object.__setattr__(self, "__pydantic_extra__", None)


def function(a: int, b: int = 1, *rest: int, c: int, **more: int) -> None: ...


async def coroutine(*, a: int) -> None: ...


def generator() -> Any:
    yield


@pytest.mark.parametrize(
    ("thing", "kind", "size", "preview"),
    [
        (None, "NoneType", None, "None"),
        (True, "bool", None, "True"),
        (-5, "int", None, "-5"),
        (1.5, "float", None, "1.5"),
        (float("nan"), "float", None, "nan"),
        (1 + 2j, "complex", None, "(1+2j)"),
        ("it's", "str", 4, '"it\'s"'),
        (b"raw", "bytes", 3, "b'raw'"),
        (bytearray(b"raw"), "bytearray", 3, "bytearray(b'raw')"),
        ([1, [2]], "list", 2, "[1, [2]]"),
        ((1,), "tuple", 1, "(1,)"),
        ((), "tuple", 0, "()"),
        ({"a": None}, "dict", 1, "{'a': None}"),
        (set(), "set", 0, "set()"),
        ({1}, "set", 1, "{1}"),
        (frozenset({1}), "frozenset", 1, "frozenset({1})"),
        (range(3), "range", 3, "range(0, 3)"),
        (range(10**30), "range", None, f"range(0, {10**30})"),
        (datetime.date(2024, 1, 2), "datetime.date", None, "2024-01-02"),
        (datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), "datetime.datetime", None, "2024-01-02T00:00:00+00:00"),
        (datetime.time(1, 2, 3), "datetime.time", None, "01:02:03"),
        (datetime.timedelta(1, 2), "datetime.timedelta", None, "1 day, 0:00:02"),
        (decimal.Decimal("1.50"), "decimal.Decimal", None, "Decimal('1.50')"),
        (fractions.Fraction(1, 3), "fractions.Fraction", None, "Fraction(1, 3)"),
        (uuid.UUID(int=255), "uuid.UUID", None, "UUID('00000000-0000-0000-0000-0000000000ff')"),
        (pathlib.PurePosixPath("/a", "b/c"), "pathlib.PurePosixPath", None, "PurePosixPath('/a/b/c')"),
        (pathlib.PurePosixPath("a", "/b"), "pathlib.PurePosixPath", None, "PurePosixPath('/b')"),
        (pathlib.PurePosixPath(), "pathlib.PurePosixPath", None, "PurePosixPath('.')"),
        (re.compile("a+"), "re.Pattern", None, "re.compile('a+')"),
        (collections.deque([1]), "collections.deque", 1, "deque([1])"),
        (collections.Counter("aab"), "collections.Counter", 2, "Counter({'a': 2, 'b': 1})"),
        (collections.OrderedDict(a=1), "collections.OrderedDict", 1, "OrderedDict({'a': 1})"),
        (collections.defaultdict(list, a=[]), "collections.defaultdict", 1, "defaultdict({'a': []})"),
        (Invoice(1, ["x"]), f"{__name__}.Invoice", None, "Invoice(number=1, lines=['x'])"),
        (Model(a=1), f"{__name__}.Model", None, "Model(a=1)"),
        (Point(1, 2), f"{__name__}.Point", 2, "Point(x=1, y=2)"),
        (Colour.RED, f"{__name__}.Colour", None, "<Colour.RED: 1>"),
        (Word.YES, f"{__name__}.Word", 1, "<Word.YES: 'y'>"),
        (function, "function", None, "def function(a, b=…, *rest, c, **more)"),
        (coroutine, "function", None, "async def coroutine(*, a)"),
        (lambda x: x, "function", None, "lambda x"),
        (Trap().arm, "method", None, "method def arm(self, *kinds)"),
        (len, "builtin_function_or_method", None, "<built-in len>"),
        (Invoice, "type", None, "class Invoice"),
        (Colour, "enum.EnumType", None, "class Colour(IntEnum)"),
        (json, "module", None, "module json"),
        (generator(), "generator", None, "<generator generator>"),
        (KeyError("k", 1), "KeyError", None, "KeyError('k', 1)"),
        (object(), "object", None, "<object>"),
        (numpy.arange(4.0).reshape(2, 2), "numpy.ndarray", [2, 2], "ndarray(2, 2) float64: 0.0, 1.0, 2.0, 3.0"),
        (numpy.array(3), "numpy.ndarray", [], "ndarray() int64: 3"),
        (numpy.array([None, "x"]), "numpy.ndarray", [2], "ndarray(2,) object: None, 'x'"),
        (numpy.array(["ab"]), "numpy.ndarray", [1], "ndarray(1,) U2: 'ab'"),
        (numpy.array(["2024-01-02"], "M8[D]"), "numpy.ndarray", [1], "ndarray(1,) datetime64[D]: '2024-01-02'"),
        (numpy.zeros(2, [("a", "O")]), "numpy.ndarray", [2], "ndarray(2,) record"),
        (numpy.zeros((0, 3), bool), "numpy.ndarray", [0, 3], "ndarray(0, 3) bool"),
        (numpy.float32(1.5), "numpy.float32", None, "float32(1.5)"),
        (numpy.datetime64("2024-01-02"), "numpy.datetime64", None, "datetime64(2024-01-02)"),
        (pandas.Series([1.0, 2.0]), "pandas.Series", [2], "2 rows float64: 1.0, 2.0"),
        (pandas.Series(["a"], dtype="category"), "pandas.Series", [1], "1 rows category"),
        (pandas.Index([3, 4]), "pandas.Index", [2], "2 labels: 3, 4"),
        (pandas.Timestamp("2024-01-02"), "pandas.Timestamp", None, "Timestamp(2024-01-02T00:00:00)"),
        (pandas.DataFrame(), "pandas.DataFrame", [0, 0], "0 rows x 0 columns"),
        (TextView("é text".encode()), "sandbox.kernel.views.TextView", None, "<TextView: 'é text'>"),
    ],
    ids=lambda value: value if type(value) is str else "",
)
def test_each_kind_has_its_type_its_size_and_its_preview(thing: object, kind: str, size: object, preview: str) -> None:
    variable = look(thing)
    assert (variable["type"], variable["size"], variable["preview"]) == (kind, size, preview)


def test_a_frame_is_drawn_with_its_columns_and_their_types() -> None:
    frame = pandas.DataFrame(
        {
            "amount": [1.5, 2.5],
            "name": pandas.Series(["x", "y"], dtype=object),
            "n": [1, 2],
            "when": pandas.to_datetime(["2024-01-01", "2024-01-02"]).astype("datetime64[ns]"),
            "kind": pandas.Categorical(["a", "b"]),
            "maybe": pandas.array([1, None], dtype="Int64"),
        }
    )
    variable = look(frame)
    assert (variable["type"], variable["size"], variable["has_value"]) == ("pandas.DataFrame", [2, 6], False)
    assert variable["preview"] == (
        "2 rows x 6 columns: amount float64, name object, n int64, when datetime64[ns], kind category, maybe Int64"
    )
    assert look(pandas.DataFrame({"a": ["x"]}))["preview"] in {
        "1 rows x 1 columns: a str",
        "1 rows x 1 columns: a object",  # before pandas 3
    }
    multi = pandas.DataFrame({"v": [1, 2]}, index=pandas.MultiIndex.from_tuples([("a", 1), ("b", 2)]))
    assert look(multi)["size"] == [2, 1]
    assert look(pandas.DataFrame(numpy.zeros((2, 100_000))))["size"] == [2, 100_000]


def test_text_columns_kept_by_arrow_are_read_too() -> None:
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"a": pandas.array(["x", None], dtype="string[pyarrow]"), "b": [1, 2]})
    frame.columns = pandas.Index(["a", "b"], dtype="string[pyarrow]")
    assert (look(frame)["size"], look(frame)["preview"]) == ([2, 2], "2 rows x 2 columns: a str, b int64")
    assert look(frame["a"])["preview"] == "2 rows str: 'x', None"
    numbers = pandas.DataFrame({"a": pandas.array([1], dtype="int64[pyarrow]")})
    assert look(numbers)["preview"] == "1 rows x 1 columns: a ArrowExtensionArray"


def test_a_frame_that_was_taken_apart_is_drawn_as_its_name() -> None:
    ran: list[str] = []

    class Evil(list):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            ran.append("iter")
            return iter([])

        def __getitem__(self, key: Any) -> Any:
            ran.append("getitem")

    for manager in (None, Evil(), pandas.Series([1])._mgr):
        frame = pandas.DataFrame({"a": [1]})
        frame.__dict__["_mgr"] = manager
        if manager is not None and not isinstance(manager, Evil):
            manager.__dict__["axes"] = Evil()
        assert look(frame)["preview"] == "<DataFrame>"
    assert ran == []


@pytest.mark.parametrize(
    ("thing", "value"),
    [
        (None, None),
        (False, False),
        (10**99, 10**99),
        (-0.5, -0.5),
        ((1, (2,)), [1, [2]]),
        ({"a": [1, "é"]}, {"a": [1, "é"]}),
        (numpy.int64(3), 3),
        ([numpy.float32(0.5), numpy.bool_(True)], [0.5, True]),
    ],
)
def test_plain_data_comes_with_its_value(thing: object, value: object) -> None:
    variable = look(thing)
    assert variable["has_value"]
    assert variable["value"] == value
    assert type(variable["value"]) is type(value)


@pytest.mark.parametrize(
    "thing",
    [
        *(10**200, float("inf"), float("nan"), 1j, b"x", {1}, {1: 2}, [{1}], datetime.date(2024, 1, 2)),
        *(numpy.float64("nan"), numpy.complex128(1), numpy.longdouble(1), numpy.datetime64("2024-01-02")),
        *(
            numpy.timedelta64(1, "ns"),
            "lone \ud800",
            {"\udfff": 1},
            Point(1, 2),
            object(),
            ["x" * 10_001],
            numpy.zeros(1),
        ),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_anything_else_has_no_value(thing: object) -> None:
    assert not look(thing)["has_value"]


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(deadline=None)
@given(plain, st.integers(0, 200))
def test_a_value_is_exact_and_within_its_budget(thing: Any, value_bytes: int) -> None:
    encoded = len(json.dumps(thing, separators=(",", ":"), ensure_ascii=False).encode())
    variable = look(thing, value_bytes=value_bytes)
    assert variable["has_value"] == (encoded <= value_bytes)
    if variable["has_value"]:
        assert variable["value"] == thing
        assert json.dumps(variable["value"]) == json.dumps(thing)


unquoted = st.text(st.characters(exclude_characters="'\"…"))  # which quotes stand around a text depends on all of it


@settings(deadline=None)
@given(st.recursive(unquoted | st.integers(), lambda inner: st.lists(inner) | st.tuples(inner, inner)))
def test_a_preview_is_the_repr_or_its_beginning(thing: Any) -> None:
    preview, whole = look(thing, preview_chars=30)["preview"], repr(thing)
    if "…" in preview:
        assert whole.startswith(preview[: preview.index("…")])
    else:
        assert preview == whole


def test_large_and_cyclic_things_are_bounded() -> None:
    ring: list[Any] = []
    ring.append(ring)
    loop: dict[str, Any] = {}
    loop["self"] = loop
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    laughs: list[Any] = ["ha"]
    for _ in range(60):
        laughs = [laughs] * 10
    namespace = {
        "million": list(range(10**6)),
        "table": dict.fromkeys(range(10**5)),
        "digits": 1 << (3 * 10**6),
        "decimal": decimal.Decimal("9" * 10**5),
        "text": "é" * 10**6,
        "raw": b"x" * 10**6,
        "array": numpy.zeros((1000, 1000)),
        "ring": ring,
        "loop": loop,
        "deep": deep,
        "laughs": laughs,
    }
    result = take(namespace)
    found = {variable["name"]: variable for variable in result["variables"]}
    assert result["complete"]
    assert not any(variable["has_value"] for variable in result["variables"])
    assert found["million"]["size"] == 10**6
    assert found["million"]["preview"].startswith("[0, 1, 2, ")
    assert found["digits"]["preview"] == "<int of 3,000,001 bits>"
    assert found["decimal"]["preview"].startswith("<Decimal of ")
    assert found["ring"]["preview"] == "[[[[[…]]]]]"
    assert found["deep"]["preview"] == "[[[[[…]]]]]"
    while deep:  # taken apart by hand, or its end would be a very deep one
        deep = deep.pop()


def test_the_lowest_digit_limit_does_not_matter() -> None:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert look([10**250, 10**700, decimal.Decimal(10) ** 5])["preview"].startswith("[1000")
        assert look(10**700)["preview"].startswith("<int of")
        assert look(range(10**700))["preview"] == "<range>"
    finally:
        sys.set_int_max_str_digits(before)


def test_names_are_skipped_and_counted() -> None:
    namespace: dict[Any, Any] = {f"v{number}": number for number in range(20)} | {1: 2, "": 3, "n" * 300: 4, "hide": 5}
    result = take(namespace, skip=frozenset({"hide", "absent"}), max_variables=10)
    assert [variable["name"] for variable in result["variables"]] == [f"v{number}" for number in range(10)]
    assert result["omitted"] == 13
    assert result["complete"]
    (odd,) = take({"lone\ud800": 1})["variables"]
    assert odd["name"] == "lone\ufffd"


def test_no_time_gives_an_empty_snapshot_that_says_so() -> None:
    assert take({"a": 1, "b": 2}, deadline_seconds=-1.0) == {"variables": [], "omitted": 2, "complete": False}


@pytest.mark.parametrize("ticks", range(1, 60))
def test_time_can_run_out_anywhere(ticks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10**9))

    def tick() -> float:
        return float(next(clock))

    monkeypatch.setattr(module, "monotonic", tick)
    monkeypatch.setattr(previews, "monotonic", tick)
    namespace = {"a": [1, {"b": [2, 3]}], "c": (4, 5), "d": "text", "e": numpy.arange(2)}
    result = take(namespace, deadline_seconds=float(ticks))
    assert len(result["variables"]) + result["omitted"] == 4
    assert not result["complete"] or result["omitted"] == 0
    if not result["complete"] and result["variables"]:
        assert all(each["has_value"] for each in result["variables"][:-1])


def test_threads_that_change_everything_meanwhile_do_no_harm() -> None:
    namespace: dict[str, Any] = {"table": {}, "bag": set(), "row": [], "queue": collections.deque()}
    table, bag, row, queue = namespace.values()
    stop = threading.Event()

    def churn() -> None:
        nonlocal bag
        number = 0
        while not stop.is_set():
            number += 1
            for thing in (table, namespace):
                thing[str(number % 50)] = number
                thing.pop(str((number + 7) % 50), None)
            bag ^= {number % 10}
            row.append(number)
            del row[20:]
            queue.append(number)
            if len(queue) > 20:
                queue.clear()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(300):
            take(namespace)
    finally:
        stop.set()
        thread.join()


@given(
    st.lists(st.integers() | st.just(2**998) | st.just(-(2**1001)), max_size=90) | st.lists(st.floats(), max_size=90)
)
def test_a_list_of_numbers_is_drawn_as_if_number_by_number(numbers: list[Any]) -> None:
    huge = [isinstance(n, int) and n.bit_length() > 1000 for n in numbers]
    shown = [
        f"<int of {n.bit_length():,} bits>" if is_huge else repr(n) for n, is_huge in zip(numbers, huge, strict=True)
    ]
    whole = f"[{', '.join(shown)}]"
    expected = whole if len(whole) <= 199 else whole[:199] + "…"
    (variable,) = take({"v": numbers})["variables"]
    assert variable["preview"] == expected


def test_a_cell_stopped_deep_in_a_recursion_leaves_enough_stack() -> None:
    namespace = {"a": [[1]], "b": Trap(), "f": pandas.DataFrame({"a": [1]})}
    limit = sys.getrecursionlimit()

    def sink() -> dict[str, Any]:
        try:
            return sink()
        except RecursionError:
            return snapshot(namespace, skip=frozenset())  # where not even this fits, the frame above tries again

    assert sink() == take(namespace)
    assert sys.getrecursionlimit() - limit in (0, 300)  # Python 3.12 and later cannot take it back so deep
    sys.setrecursionlimit(limit)
