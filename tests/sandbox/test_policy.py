"""The policy lets ordinary code through, refuses the rest in words that help, and fails closed."""

from __future__ import annotations

import ast
import asyncio
import inspect
import random
import re
import sys
import sysconfig
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox import policy
from sandbox.policy import Refusal, explain, review

RESERVED = frozenset({"SUBMIT", "llm_query", "context"})
STDLIB = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))


def refusals(source: str, reserved: frozenset[str] = RESERVED) -> tuple[Refusal, ...]:
    return review(ast.parse(source), reserved)


# ── ordinary code: every block passes and really runs ────────────────────────────────────────────────────────────────

ORDINARY = r'''
### look at the input
print(type(context), len(context))
print(context[:500])

### split into chunks with a helper whose argument is called like the input
def chunks(context, size=1000):
    return [context[i : i + size] for i in range(0, len(context), size)]
parts = chunks(context, 10)
print(len(parts))

### a lambda whose argument is called like the input
measure = lambda context: len(context)
assert measure("ab") == 2

### ask in a loop and submit
answers = []
for i, part in enumerate([context[:10], context[10:]]):
    answers.append(llm_query(f"Summarise part {i}: {part}"))
SUBMIT(" ".join(answers))

### augmented assignment to names
n = 1
n += 2; n -= 1; n *= 3; n //= 2; n **= 2; n %= 7; n <<= 2; n >>= 1; n |= 8; n &= 12; n ^= 5

### augmented assignment to items and attributes
class Box: pass
b = Box(); b.n = 0; b.n += 1
d = {"a": 1}; d["a"] += 1
m = [[1, 2], [3, 4]]; m[0][1] *= 5; m[1][:] += [9]

### annotations
x: int = 3
y: "list[int]"
def f(a: int, *args: str, b: float = 0.5, **kwargs: dict[str, int]) -> list[tuple[int, ...]]:
    return [(a,)]
f(x)

### classes of objects and what they inherit
class Point:
    def __init__(self, x): self.x = x
    def __eq__(self, other): return isinstance(other, self.__class__) and self.x == other.x
    def copy(self): return self.__class__(self.x)
    def kind(self): return __class__
    def __hash__(self): return hash((self.__class__, self.x))
p = Point(1)
assert p == p.copy() and p.kind() is Point
assert [kind.__name__ for kind in type(p).__mro__] == ["Point", "object"]
assert Point.mro()[-1] is object and Point.__bases__ == (object,) and Point.__base__ is object
assert "{0.__class__.__name__}".format(p) == "Point" and getattr(p, "__class__") is Point
match p:
    case object(__class__=kind): assert kind is Point

### tables of variables
total = 5
assert "total" in globals() and "nothing" not in globals()
def names():
    inner = 1
    return sorted(locals())
assert names() == ["inner"]
class Row: pass
row = Row(); row.a = 1
assert vars(row) == {"a": 1}
globals()["made"] = 2

### variables and parameters named like builtins
input = "some text"
words = input.split()
def parse(vars, eval=None, compile=re.compile if "re" in globals() else None):
    return [vars, eval]
assert parse(1) == [1, None] and words == ["some", "text"]

### garbage
import gc
class Closing:
    def __del__(self): closed.append(1)
closed = []
Closing()
gc.collect()
assert closed == [1]

### modules by name
import importlib
import importlib.util
from importlib import import_module, metadata, resources
assert importlib.import_module("json").loads("1") == 1 and import_module("math").pi > 3
has_torch = importlib.util.find_spec("surely_not_installed") is not None

### top-level await
import asyncio
async def work(n):
    await asyncio.sleep(0)
    return n * 2
results = await asyncio.gather(*(work(i) for i in range(3)))
assert results == [0, 2, 4]

### async for and async with
from contextlib import asynccontextmanager
@asynccontextmanager
async def opened():
    yield 5
async def count(n):
    for i in range(n):
        yield i
async with opened() as value:
    got = [i async for i in count(3)]
async for i in count(2):
    value += i

### async functions that wait for one another
import asyncio
async def ask(q, semaphore):
    async with semaphore:
        return llm_query(q)
async def main():
    semaphore = asyncio.Semaphore(4)
    return await asyncio.gather(*[ask(str(i), semaphore) for i in range(5)])
assert len(await main()) == 5

### match with every pattern
from dataclasses import dataclass
@dataclass
class Point:
    x: int
    y: int
def kind(value):
    match value:
        case None | True | False: return "single"
        case 0 | -1 | 1.5: return "number"
        case "a" as letter: return letter
        case [1, *rest, 9]: return rest
        case {"k": v, **others}: return v, others
        case Point(x=0, y=here): return here
        case Point(a, b) if a == b: return "diagonal"
        case str() | bytes(): return "text"
        case [[p, q], (r, _)]: return p, q, r
        case _: return None
for v in (None, 0, "a", [1, 2, 9], {"k": 1, "z": 2}, Point(0, 4), Point(2, 2), b"", [[1, 2], (3, 4)], object()):
    print(kind(v))

### comprehensions
squares = [n * n for n in range(10) if n % 2]
pairs = {(a, b) for a in "ab" for b in "cd" if a != b}
index = {w: i for i, w in enumerate("a b c".split())}
total = sum(len(w) for w in index)
flat = [x for row in [[1], [2, 3]] for x in row]

### lambdas and sorting
rows = [("b", 2), ("a", 2), ("c", 1)]
rows.sort(key=lambda r: (-r[1], r[0]))
best = max(rows, key=lambda row: row[1], default=None)

### decorators
import functools, time
def timed(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        start = time.perf_counter()
        try:
            return fn(*args, **kwargs)
        finally:
            print(f"{fn.__name__} took {time.perf_counter() - start:.3f}s")
    wrapper.__name__ = fn.__name__
    return wrapper
@timed
@functools.lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib.__wrapped__(n - 1) + fib.__wrapped__(n - 2)
fib(5)

### a class with special methods
class Vector:
    __slots__ = ("x", "y")
    def __init__(self, x, y): self.x, self.y = x, y
    def __repr__(self): return f"{self.__class__.__name__}({self.x}, {self.y})"
    def __eq__(self, other): return isinstance(other, Vector) and (self.x, self.y) == (other.x, other.y)
    def __hash__(self): return hash((self.x, self.y))
    def __add__(self, other): return Vector(self.x + other.x, self.y + other.y)
    def __radd__(self, other): return self if other == 0 else self + other
    def __iadd__(self, other): self.x += other.x; return self
    def __mul__(self, k): return Vector(self.x * k, self.y * k)
    __rmul__ = __mul__
    def __neg__(self): return self * -1
    def __abs__(self): return (self.x ** 2 + self.y ** 2) ** 0.5
    def __bool__(self): return bool(abs(self))
    def __len__(self): return 2
    def __iter__(self): return iter((self.x, self.y))
    def __getitem__(self, i): return (self.x, self.y)[i]
    def __contains__(self, v): return v in (self.x, self.y)
    def __lt__(self, other): return abs(self) < abs(other)
    def __call__(self, z): return self.x + z
    def __format__(self, spec): return format(self.x, spec)
v = sum([Vector(1, 2), Vector(3, 4)])
v += 2 * Vector(1, 1)
print(v, -v, abs(v), len(v), list(v), 6 in v, v(1), f"{v:>5}", v < Vector(9, 9))

### a context manager and an iterator
class Countdown:
    def __init__(self, n): self.n = n
    def __enter__(self): return self
    def __exit__(self, kind, error, trace): return False
    def __iter__(self): return self
    def __next__(self):
        if self.n <= 0: raise StopIteration
        self.n -= 1
        return self.n
with Countdown(3) as c:
    assert list(c) == [2, 1, 0]

### items, missing keys and attributes on demand
class Tree(dict):
    def __missing__(self, key):
        value = self[key] = type(self)()
        return value
    def __getattr__(self, name):
        try: return self[name]
        except KeyError as error: raise AttributeError(name) from error
    def __setattr__(self, name, value): self[name] = value
    def __delitem__(self, key): super().__delitem__(key)
t = Tree(); t["a"]["b"] = 1; t.c = 2; del t["c"]
assert t.a.b == 1

### dataclasses with fields called like reserved names and builtins
from dataclasses import dataclass, field, asdict, replace
@dataclass(order=True)
class Job:
    input: str
    context: str = ""
    vars: dict = field(default_factory=dict)
    _cache: list = field(default_factory=list, repr=False)
    def __post_init__(self): self.input = self.input.strip()
    def eval(self): return len(self.input)
    def compile(self): return self.context
job = Job(input=" a ", context="b")
print(job, asdict(replace(job, context="c")), job.eval(), Job.__dataclass_fields__.keys())

### a frozen dataclass that sets its own attribute
from dataclasses import dataclass
@dataclass(frozen=True)
class Word:
    text: str
    def __post_init__(self): object.__setattr__(self, "text", self.text.lower())
assert Word("A").text == "a"

### enums
from enum import Enum, IntEnum, auto
class Color(Enum):
    RED = auto()
    BLUE = auto()
    @classmethod
    def parse(cls, text): return cls[text.upper()]
print(Color.parse("red"), [c.name for c in Color], Color.__members__, Color.RED.value)

### named tuples
from typing import NamedTuple
from collections import namedtuple
class Row(NamedTuple):
    name: str
    score: float = 0.0
r = Row("a")._replace(score=2.0)
P = namedtuple("P", "x y")
print(r._asdict(), P(1, 2)._fields, P._make([3, 4]))

### typed dicts, protocols and generics
from typing import TypedDict, Protocol, Generic, TypeVar, Optional, Any
T = TypeVar("T")
class Movie(TypedDict, total=False):
    title: str
class Sized(Protocol):
    def __len__(self) -> int: ...
class Stack(Generic[T]):
    def __init__(self) -> None: self._items: list[T] = []
    def push(self, item: T) -> None: self._items.append(item)
    def pop(self) -> Optional[T]: return self._items.pop() if self._items else None
s = Stack[int](); s.push(1); assert s.pop() == 1
print(Movie.__annotations__, list[int].__args__, list[int].__origin__)

### inheritance and super
class Base:
    registry = {}
    def __init__(self, name): self.name = name
    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        Base.registry[cls.__name__] = cls
class Child(Base):
    def __init__(self, name, age):
        super().__init__(name)
        Base.__init__(self, name)
        self.age = age
assert Child("a", 1).name == "a" and "Child" in Base.registry

### properties, static and class methods, privates
class Account:
    def __init__(self): self.__balance = 0; self._log = []
    @property
    def balance(self): return self.__balance
    @balance.setter
    def balance(self, value): self.__balance = value
    @staticmethod
    def rate(): return 0.1
    @classmethod
    def make(cls): return cls()
a = Account.make(); a.balance += 5; print(a.balance, a._log, a._Account__balance)

### abstract classes, also by metaclass
from abc import ABC, ABCMeta, abstractmethod
class Shape(ABC):
    @abstractmethod
    def area(self): ...
class Other(metaclass=ABCMeta):
    def area(self): return 1
class Square(Shape):
    def area(self): return 4
print(Square().area(), Other().area())

### a singleton
class One:
    _one = None
    def __new__(cls, *args):
        if cls._one is None:
            cls._one = super().__new__(cls)
        return cls._one
assert One() is One()

### a descriptor
class Positive:
    def __set_name__(self, owner, name): self.name = "_" + name
    def __get__(self, obj, owner=None): return getattr(obj, self.name)
    def __set__(self, obj, value): setattr(obj, self.name, abs(value))
class Item:
    price = Positive()
i = Item(); i.price = -3; assert i.price == 3

### f-strings
name, width, ratio = "x", 8, 0.256
print(f"{name!r:>{width}} {ratio:.1%} {ratio=:.2f} {{literal}} {'nested ' + f'{name}'} {name.upper()}")

### str.format
print("{} {}".format("a", "b"), "{0} {1} {name:>{w}}".format("a", "b", name="c", w=4))
print("{0.real} {1[0]} {2[k]} {0.__class__.__name__}".format(3, [4], {"k": 5}))
print("{a[__class__]} {a[x.__class__]}".format(a={"__class__": 1, "x.__class__": 2}), "%s" % 1)

### templates and JSON with braces
template = "Answer in JSON: {{\"name\": \"...\", \"items\": []}}\nText: {text}"
print(template.format(text="a.b"))
raw = '{"a": {"b.c": [1, 2]}}'
code = "def f(x):\n    return {x.__len__(): 1, 'k': {}}"
import json
json.loads(raw)

### walrus
import re
if (m := re.search(r"\d+", "abc 42")) is not None:
    print(m.group())
values = [y for x in range(5) if (y := x * x) > 3]
while (n := len(values)) > 1:
    values.pop()

### star unpacking
first, *middle, last = [1, 2, 3, 4]
(a, b), *c = [(1, 2), 3]
merged = {**{"a": 1}, "b": 2}
joined = [*middle, *"xy"]
def f(*args, **kwargs): return args, kwargs
f(*joined, **merged)
for i, (k, v) in enumerate(merged.items()): pass
print(*joined, sep=", ")

### global and nonlocal
counter = 0
def bump():
    global counter
    counter += 1
def outer():
    total = 0
    def inner():
        nonlocal total
        total += 1
        return total
    return inner() + inner()
bump(); outer()

### try, except, else, finally
import traceback
try:
    int("x")
except (ValueError, TypeError) as e:
    print(type(e).__name__, e, e.args, e.__traceback__ is not None)
    print("".join(traceback.format_exception(type(e), e, e.__traceback__))[-20:])
else:
    print("fine")
finally:
    print("done")

### exception groups
try:
    raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
except* ValueError as group:
    print(group.exceptions)
except* TypeError:
    pass

### custom exceptions and raise from
class ParseError(Exception):
    def __init__(self, message, line):
        super().__init__(message)
        self.line = line
    def __str__(self): return f"{self.args[0]} at {self.line}"
try:
    try:
        {}["a"]
    except KeyError as error:
        raise ParseError("bad", 3) from error
except ParseError as error:
    assert isinstance(error.__cause__, KeyError)

### with several files
from pathlib import Path
with open("a.txt", "w") as out, open("b.txt", "w") as other:
    out.write("one\ntwo\n"); other.write("three")
print(Path("a.txt").read_text().splitlines(), Path("b.txt").stat().st_size)

### parenthesised with
from contextlib import nullcontext, suppress
with (nullcontext(1) as one, nullcontext((2, 3)) as (two, three), suppress(KeyError)):
    {}["a"]

### del and assert
d = {"a": 1, "b": [1, 2, 3]}
x = 1
del d["a"], d["b"][0], x
assert "a" not in d, "still there"

### generators
def walk(tree):
    for item in tree:
        if isinstance(item, list):
            yield from walk(item)
        else:
            received = yield item
g = walk([1, [2, [3]]])
print(next(g), g.send(None), list(g)); g.close()

### leading underscores
_x = 1
_, __, *_rest = 1, 2, 3
def _helper(_arg=None): return _arg
for _ in range(2): _helper(_x)
__private = 3
print(__private)

### main guard and module facts
__version__ = "1.0"
__all__ = ["main"]
def main():
    """Say hello."""
    print("hello", main.__doc__, __name__, __doc__)
if __name__ == "__main__":
    main()

### names of classes
x = 3.5
print(type(x).__name__, x.__class__.__name__, type(x).__qualname__, x.__class__.__qualname__, type(x).__module__)

### special methods called by name
assert [1].__len__() == 1 and (1).__add__(2) == 3 and "a".__contains__("a") and [3].__getitem__(0) == 3
print("x".__repr__(), (5).__str__(), [1, 2].__iter__().__next__())

### attributes of an object as a dict
class Bunch:
    def __init__(self, **kwargs): self.__dict__.update(kwargs)
b = Bunch(a=1)
print(b.__dict__, {k: v for k, v in b.__dict__.items() if not k.startswith("_")}, dir(b)[:2])

### getattr, setattr and hasattr
class A: pass
a = A()
for name in ("one", "two"):
    setattr(a, name, 1)
print(getattr(a, "one", None), hasattr(a, "__len__"), hasattr(a, "__dict__"), hasattr(a, "__iter__"))
delattr(a, "one")

### operator functions
from operator import itemgetter, attrgetter, methodcaller
import operator
print(sorted([(1, "b"), (2, "a")], key=itemgetter(1)), attrgetter("real", "imag")(1j), methodcaller("upper")("a"))
print(operator.attrgetter("__class__.__name__")(3))

### regular expressions
import re
pattern = re.compile(r"(?P<key>\w+)=(?P<value>[^;]*)", re.I)
found = {m["key"]: m["value"] for m in pattern.finditer("a=1;b=2")}
print(re.sub(r"\s+", " ", "a  b"), re.findall(r"\{[^}]*\}", "{a} {b}"), found)

### counters and friends
from collections import Counter, defaultdict, deque, OrderedDict, ChainMap
c = Counter("abracadabra").most_common(2)
groups = defaultdict(list)
for w in "apple avocado bean".split():
    groups[w[0]].append(w)
q = deque([1, 2], maxlen=2); q.append(3); q.rotate(1)

### itertools and functools
import itertools as it
from functools import reduce, partial, cached_property
print(list(it.islice(it.chain([1], it.count(5)), 3)), reduce(lambda a, b: a * b, [1, 2, 3]), partial(int, base=2)("11"))
print([(k, list(g)) for k, g in it.groupby("aab")])

### dates, decimals and random numbers
from datetime import datetime, timedelta, date
from decimal import Decimal
import random, math, statistics
random.seed(0)
print(datetime(2024, 1, 1) + timedelta(days=1), Decimal("0.1") * 3, math.sqrt(2), statistics.mean([1, 2]))

### csv and json
import csv, io, json
rows = list(csv.DictReader(io.StringIO("a,b\n1,2\n")))
print(json.dumps({"rows": rows}, indent=2, default=str))

### literal data
import ast
print(ast.literal_eval("{'a': [1, 2]}"))

### star import from the standard library
from math import *
print(floor(pi))

### files and folders
import os, shutil, glob, tempfile
os.makedirs("out", exist_ok=True)
path = os.path.join("out", "x.txt")
with open(path, "w", encoding="utf-8") as f:
    f.write("x")
print(os.listdir("out"), glob.glob("out/*.txt"), os.environ.get("HOME"), os.getcwd() != "")
shutil.rmtree("out")

### threads
from concurrent.futures import ThreadPoolExecutor, as_completed
import threading, queue
with ThreadPoolExecutor(max_workers=2) as pool:
    futures = {pool.submit(llm_query, str(i)): i for i in range(4)}
    done = {futures[f]: f.result() for f in as_completed(futures)}

### sys
import sys
print(sys.version_info[:2], sys.maxsize, sys.getsizeof([]), file=sys.stderr)
sys.stdout.write("x\n")

### parts of urllib that need no network
from urllib.parse import urlparse, quote
import urllib.parse, http
print(urlparse("https://a.b/c?d=e").query, http.HTTPStatus(200).phrase)

### what a function takes
import inspect
print(inspect.signature(llm_query), inspect.isfunction(len))

### pickling one's own data
import pickle, copy
assert pickle.loads(pickle.dumps({"a": [1]})) == copy.deepcopy({"a": [1]})

### hashes and encodings
import hashlib, base64, zlib, textwrap, difflib, heapq, bisect, string, uuid
print(hashlib.sha256(b"x").hexdigest()[:8], base64.b64encode(b"x"), heapq.nsmallest(2, [3, 1, 2]))
print(string.ascii_letters[:3], bisect.bisect([1, 3], 2), textwrap.dedent("  a"))

### slices and conditional expressions
xs = list(range(10))
print(xs[::-1], xs[2:8:2], "even" if len(xs) % 2 == 0 else "odd", 1 < len(xs) <= 10, not xs or xs and xs[0])

### loops with else
for n in range(2, 10):
    for x in range(2, n):
        if n % x == 0:
            break
    else:
        continue
while True:
    break
else:
    pass

### recursion with a cache
memo = {}
def depth(tree):
    return 1 + max(map(depth, tree), default=0) if isinstance(tree, list) else 0
print(depth([1, [2, [3]]]))

### a long sum
total = %LONG%

### numpy
import numpy as np
a = np.arange(6).reshape(2, 3)
a[a > 2] *= -1
a[:, 0] += 10
print(a @ a.T, np.__version__, a.mean(axis=0), np.linalg.norm(a), a[..., None].shape)

### pandas
import pandas as pd
df = pd.DataFrame({"city": ["a", "b", "a"], "n": [1, 2, 3]})
df["share"] = df["n"] / df["n"].sum()
df.loc[df.n > 1, "n"] += 1
print(df.groupby("city").agg(total=("n", "sum")).reset_index().to_dict("records"))
print(df.query("n > 2").head(), df.eval("n * 2").tolist(), df.apply(lambda r: r["n"] + 1, axis=1).tolist())

### python 3.12: type aliases and type parameters
type Pair[A] = tuple[A, A]
type Numbers = list[int]
def first[T: (int, str), *Ts, **P](xs: list[T]) -> T: return xs[0]
class Holder[T]:
    def __init__(self, item: T): self.item = item
print(first([1]), Holder(2).item, Numbers.__value__, Pair.__type_params__)

### python 3.12: f-strings with the same quotes and comments
names = ["a", "b"]
print(f"{", ".join(names)} {f"{f"{1 + 1}"}"}")
print(f"{
    names[0]  # the first
}")

### python 3.13: defaults of type parameters
class Box[T = int]:
    def get(self) -> T | None: return None
print(Box().get())
'''


def blocks(text: str) -> list[pytest.ParameterSet]:
    """One parameter a block; `python 3.x` in its title says from which version it is valid."""
    found = []
    for block in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        title, _, source = block.partition("\n")
        version = re.match(r"python 3\.(\d+)", title)
        old = version is not None and sys.version_info < (3, int(version[1]))
        source = source.replace("%LONG%", " + ".join(map(str, range(500))))
        found.append(pytest.param(source, id=title, marks=pytest.mark.skipif(old, reason=title)))
    return found


@pytest.mark.parametrize("source", blocks(ORDINARY))
def test_ordinary_code_passes_and_runs(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("numpy", "pandas"):
        if f"import {package}" in source:
            pytest.importorskip(package, exc_type=ImportError)
    assert refusals(source) == ()
    monkeypatch.chdir(tmp_path)
    submitted: list[object] = []
    names = {
        "__name__": "__main__",
        "__doc__": None,
        "context": "some long text " * 20,
        "llm_query": lambda prompt: prompt[:5],
        "SUBMIT": submitted.append,
    }
    monkeypatch.setitem(sys.modules, "__main__", type(sys)("__main__"))  # dataclasses look their module up
    code = compile(source, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    result = eval(code, names)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(result)


def test_the_corpus_is_large_enough() -> None:
    assert len(blocks(ORDINARY)) >= 60
    assert len(REFUSED) + len(REBINDINGS) >= 60


# ── refused code: the line, and a word of what is said about it ──────────────────────────────────────────────────────

REFUSED = [
    # special attributes
    ("().__class__.__bases__[0].__subclasses__()", 1, "isinstance()"),
    ("type(x).__mro__[1].__init__.__globals__", 1, "__globals__"),
    ("type(x).__mro__ = ()", 1, "only be read"),
    ("class A: pass\n\nA.__subclasses__()", 3, "internals"),
    ("def f(): pass\nf.__globals__['x']", 2, "`f.__globals__`"),
    ("f = lambda: 0\nf.__code__ = f.__code__", 2, "Call the function"),
    ("(lambda: 0).__closure__", 1, "__closure__"),
    ("print.__self__", 1, "print.__self__"),
    ("x = __builtins__", 1, "__builtins__"),
    ("import os\nos.__loader__", 2, "import statement"),
    ("__spec__", 1, "import statement"),
    ("object.__getattribute__(1, 'x')", 1, "getattr(obj, name)"),
    ("(1).__reduce__()", 1, "unpickled"),
    ("a.b.__reduce_ex__(2)", 1, "`a.b.__reduce_ex__`"),
    ("a.__dict__ = {}", 1, "only be read"),
    ("a.__class__ = int", 1, "only be read"),
    ("del a.__class__", 1, "only be read"),
    ("a.__weird__", 1, "internal names"),
    ("x = [\n    1,\n    y.__array_interface__,\n]", 3, "memory"),
    # frames, generators, coroutines, tracebacks
    ("g = (i for i in [])\ng.gi_frame.f_back", 2, "running code"),
    ("try:\n    1/0\nexcept Exception as e:\n    e.__traceback__.tb_frame", 4, "repr(error)"),
    ("c.cr_await", 1, "running code"),
    ("a.ag_code", 1, "running code"),
    ("import sys\nsys._getframe()", 2, "arguments"),
    ("from sys import _getframe", 1, "_getframe"),
    ("import inspect\ninspect.currentframe()", 2, "inspect.currentframe"),
    # the same names as text
    ("setattr(x, '__dict__', {})", 1, "only be read"),
    ("delattr(x, '__bases__')", 1, "only be read"),
    ("getattr(type(x), '__subclasses__')", 1, '"__subclasses__"'),
    ("hasattr(x, 'gi_frame')", 1, "gi_frame"),
    ("from operator import attrgetter\nattrgetter('a', 'b.__globals__')", 2, "__globals__"),
    ("import operator\noperator.methodcaller('__subclasses__')(int)", 2, "__subclasses__"),
    ("object.__setattr__(x, '__class__', int)", 1, "__class__"),
    ("t = '''\n{x.__init__.__globals__}\n'''", 1, "__globals__"),
    ("'{0[a].gi_frame}'.format_map(x)", 1, "gi_frame"),
    ("f'{{0.__code__}} {x}'.format(y)", 1, "__code__"),
    # definitions
    ("class A:\n    def __reduce__(self): return (print, ())", 2, "returns a dict"),
    ("class A:\n    __class__ = int", 2, "__class__"),
    ("class A:\n    async def __getattribute__(self, n): pass", 2, "__getattr__"),
    ("class A:\n    def __buffer__(self, flags): pass", 2, "memory"),
    ("def f(__builtins__): pass", 1, "__builtins__"),
    ("lambda __class__: 0", 1, "__class__"),
    ("class __Odd__: pass", 1, "internal names"),
    ("import json as __builtins__", 1, "__builtins__"),
    # builtins, called or named
    ("x = 1\nexec('x = 2')", 2, "`exec`"),
    ("y = eval('1')", 1, "ast.literal_eval"),
    ("compile('1', '', 'eval')", 1, "directly"),
    ("f = eval", 1, "`eval`"),
    ("list(map(eval, ['1']))", 1, "`eval`"),
    ("os = __import__('os')", 1, "import statement"),
    ("breakpoint()", 1, "Print"),
    ("name = input('Name? ')", 1, "nobody to answer"),
    # modules
    *((f"import json\nimport {name}", 2, "no network") for name in ("socket", "ssl", "requests", "httpx", "aiohttp")),
    ("import urllib.request", 1, "no network"),
    ("from urllib import request", 1, "`urllib.request`"),
    ("from urllib.request import urlopen", 1, "functions you were given"),
    ("from http import client as c", 1, "no network"),
    ("import os, http.client", 1, "`http.client`"),
    ("import openai", 1, "already defined"),
    ("import pip", 1, "already there"),
    ("import subprocess", 1, "other programs"),
    ("from subprocess import run", 1, "Python itself"),
    ("import multiprocessing as mp", 1, "ThreadPoolExecutor"),
    ("from multiprocessing.pool import Pool", 1, "ThreadPoolExecutor"),
    ("from concurrent.futures import ProcessPoolExecutor", 1, "ThreadPoolExecutor"),
    ("import concurrent.futures\nconcurrent.futures.ProcessPoolExecutor()", 2, "ThreadPoolExecutor"),
    *((f"import {name}", 1, "native code") for name in ("ctypes", "ctypes.util", "_ctypes", "cffi")),
    *(
        (f"import {name}", 1, "Python itself")
        for name in ("importlib.machinery", "builtins", "code", "codeop", "__main__")
    ),
    ("import pty, _posixsubprocess", 1, "`pty`"),
    ("import importlib\nimportlib.import_module('socket')", 2, "no network"),
    ("from importlib import import_module\nimport_module('subprocess')", 2, "other programs"),
    ("import gc\ngc.get_objects()", 2, "gc.collect()"),
    ("from gc import get_referrers", 1, "gc.collect()"),
    ("def f():\n    import signal", 2, "sandbox"),
    ("import faulthandler", 1, "sandbox"),
    ("import pdb; pdb.set_trace()", 1, "debugger"),
    ("from IPython.display import display", 1, "plain Python"),
    ("from getpass import getpass", 1, "nobody to answer"),
    ("import tkinter as tk", 1, "screen"),
    ("import os\nos.system('ls')", 2, "pathlib"),
    ("from os import popen", 1, "`os.popen`"),
    ("import os\nos._exit(0)", 2, "end the session"),
    ("import sys\nsys.modules['os']", 2, "import statement"),
    ("import sympy\nfrom sympy import *", 2, "reserved"),
]


@pytest.mark.parametrize(("source", "line", "word"), REFUSED)
def test_is_refused_with_line_and_advice(source: str, line: int, word: str) -> None:
    found = refusals(source)
    assert found
    assert found[0].line == line
    assert word in str(found[0])
    assert str(found[0]).startswith(f"line {line}: ")


REBINDINGS = [
    ("SUBMIT = 1", 1),
    ("a = SUBMIT = 1", 1),
    ("a, (b, *SUBMIT) = x", 1),
    ("[a, SUBMIT] = x", 1),
    ("SUBMIT += 1", 1),
    ("SUBMIT: int = 1", 1),
    ("(SUBMIT := 1)", 1),
    ("[SUBMIT := 1 for x in y]", 1),
    ("for SUBMIT in x: pass", 1),
    ("for i, SUBMIT in x: pass", 1),
    ("async def f():\n    async for SUBMIT in x: pass", 2),
    ("with x as SUBMIT: pass", 1),
    ("with x as (a, SUBMIT): pass", 1),
    ("async def f():\n    async with x as SUBMIT: pass", 2),
    ("try: pass\nexcept E as SUBMIT: pass", 2),
    ("try: pass\nexcept* E as SUBMIT: pass", 2),
    ("import SUBMIT", 1),
    ("import SUBMIT.x", 1),
    ("import x as SUBMIT", 1),
    ("from x import SUBMIT", 1),
    ("from x import (\n    y,\n    z as SUBMIT,\n)", 3),
    ("def SUBMIT(): pass", 1),
    ("@d\ndef SUBMIT(): pass", 2),
    ("async def SUBMIT(): pass", 1),
    ("class SUBMIT: pass", 1),
    ("def f():\n    SUBMIT = 1", 2),
    ("def f():\n    def SUBMIT(): pass", 2),
    ("class A:\n    def f(self):\n        SUBMIT = 1", 3),
    ("class A:\n    for SUBMIT in x: pass", 2),
    ("match x:\n    case SUBMIT: pass", 2),
    ("match x:\n    case 1 as SUBMIT: pass", 2),
    ("match x:\n    case [1, *SUBMIT]: pass", 2),
    ("match x:\n    case {'a': 1, **SUBMIT}: pass", 2),
    ("match x:\n    case A(b=SUBMIT): pass", 2),
    ("[SUBMIT for SUBMIT in x]", 1),
    ("{k: v for k, SUBMIT in x}", 1),
    ("sum(SUBMIT for SUBMIT in x)", 1),
    ("{0 for SUBMIT in x}", 1),
    ("del SUBMIT", 1),
    ("del a, (b, SUBMIT)", 1),
    ("def f():\n    global a, SUBMIT", 2),
    ("def f():\n    def g():\n        nonlocal SUBMIT", 3),
    ("class A:\n    global SUBMIT\n    SUBMIT = 1", 2),
]


@pytest.mark.parametrize(("source", "line"), REBINDINGS)
def test_a_reserved_name_cannot_be_bound_again(source: str, line: int) -> None:
    first = refusals(source)[0]
    assert (first.line, "`SUBMIT` belongs to the session" in first.message) == (line, True)
    assert "my_SUBMIT" in first.hint
    assert review(ast.parse(source)) == ()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")
@pytest.mark.parametrize(
    "source",
    ["type SUBMIT = int", "def f[SUBMIT](): pass", "class A[*SUBMIT]: pass", "type A[**SUBMIT] = int"],
)
def test_a_reserved_name_cannot_name_a_type(source: str) -> None:
    assert "`SUBMIT` belongs" in refusals(source)[0].message


@pytest.mark.parametrize(
    "source",
    [
        "SUBMIT(1)",
        "x = SUBMIT",
        "self.SUBMIT = SUBMIT",
        "f(SUBMIT=1)",
        "d['SUBMIT'] = 1",
        "def f(SUBMIT, *, llm_query=None): pass",
        "class A:\n    SUBMIT = 1\n    context: str\n    def llm_query(self): pass",
    ],
)
def test_a_reserved_name_may_be_read_and_used_as_an_argument_or_a_field(source: str) -> None:
    assert refusals(source) == ()


def test_an_input_of_the_session_may_be_called_input() -> None:
    assert review(ast.parse("print(input[:100])"), frozenset({"input"})) == ()
    assert "belongs to the session" in review(ast.parse("input = 1"), frozenset({"input"}))[0].message


def test_refusals_come_in_the_order_of_the_lines() -> None:
    found = refusals("def f():\n    if x:\n        eval('1')\nimport socket\nx.__code__; y.__code__\n")
    assert [(r.line, r.column) for r in found] == [(3, 8), (4, 7), (5, 0), (5, 12)]


@pytest.mark.parametrize("name", ["input", "eval", "exec", "compile", "breakpoint"])
def test_a_variable_or_parameter_may_be_called_like_a_builtin_that_is_refused(name: str) -> None:
    for source in (
        f"{name} = 'a'\nprint({name})",
        f"def f({name}):\n    return {name}",
        f"for {name} in x: print({name})",
        f"g = lambda {name}: {name}",
        f"[{name} for {name} in x]",
        f"with open('x') as {name}: print({name})",
        f"from json import loads as {name}\n{name}('1')",
    ):
        assert refusals(source) == (), source
    assert refusals(f"{name}('a')") != ()
    assert review(ast.parse(f"print({name})"), RESERVED, {name}) == ()


def test_names_of_earlier_cells_are_no_builtins(open_session) -> None:  # type: ignore[no-untyped-def]
    session = open_session()
    assert session.run("input = 'text'").ok
    assert session.run("input[:2]").value == "te"
    assert session.run("del input").ok
    assert "nobody to answer" in session.run("input('x')").error.message


# ── it fails closed ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_error_in_the_middle_of_the_review_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, node: ast.AST) -> ast.AST:
        raise KeyError("oops")

    monkeypatch.setitem(policy._HANDLERS, ast.Subscript, broken)
    (found,) = refusals("a = 1\nb = 2\nc = a[0]\n")
    assert (found.line, "could not be reviewed (KeyError)" in found.message) == (3, True)


@pytest.mark.parametrize("error", [RecursionError, MemoryError, NotImplementedError])
def test_running_out_of_stack_or_memory_is_a_refusal(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(self: object, tree: ast.Module) -> tuple[Refusal, ...]:
        raise error

    monkeypatch.setattr(policy._Reviewer, "read", exhausted)
    assert error.__name__ in refusals("x = 1")[0].message


def test_a_rule_that_would_rewrite_code_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(policy._HANDLERS, ast.Name, lambda self, node: ast.Constant(1))
    assert "could not be reviewed" in refusals("x")[0].message


def nested(depth: int) -> ast.Module:
    expression: ast.expr = ast.Attribute(ast.Name("x", ast.Load()), "__globals__", ast.Load())
    for _ in range(depth):
        expression = ast.UnaryOp(ast.Not(), expression)
    return ast.Module([ast.Expr(expression)], [])


def test_deep_nesting_is_a_refusal_and_never_an_overflow() -> None:
    tree = nested(10_000)
    (found,) = review(tree)
    assert "nested too deeply" in found.message
    while isinstance(body := tree.body[0].value, ast.UnaryOp):  # type: ignore[attr-defined]
        tree.body[0].value = body.operand  # type: ignore[attr-defined]  # taken apart by hand: freeing it recurses too


def test_what_is_hidden_in_deep_nesting_is_found() -> None:
    assert "__globals__" in review(nested(800))[0].message


def test_source_that_python_can_barely_compile_is_refused() -> None:
    assert "nested too deeply" in refusals("x = " + " + ".join(["1"] * 910))[0].message


def test_an_unknown_node_is_a_refusal() -> None:
    class Teleport(ast.stmt):
        _fields = ("target",)

    tree = ast.parse("x = 1\ny = 2")
    tree.body.append(Teleport(target=ast.Name("SUBMIT", ast.Store()), lineno=3, col_offset=0))
    (found,) = review(tree)
    assert (found.line, "`Teleport` is syntax" in found.message) == (3, True)


def test_an_unknown_operator_is_a_refusal() -> None:
    class Spaceship(ast.cmpop):
        pass

    tree = ast.parse("a < b")
    tree.body[0].value.ops = [Spaceship()]  # type: ignore[attr-defined]
    assert "`Spaceship`" in review(tree)[0].message


@pytest.mark.parametrize("tree", [None, "x = 1", 3, [ast.parse("x")]])
def test_what_is_not_a_tree_is_a_refusal(tree: object) -> None:
    assert review(tree)  # type: ignore[arg-type]


def test_every_node_of_this_python_is_either_known_or_refused_by_name() -> None:
    concrete = [
        kind
        for name in dir(ast)
        if isinstance(kind := getattr(ast, name), type) and issubclass(kind, (ast.stmt, ast.expr, ast.pattern))
        if kind.__module__ == "ast" and kind not in (ast.stmt, ast.expr, ast.pattern)
    ]
    unknown = {kind.__name__ for kind in concrete if not hasattr(policy._Reviewer, f"visit_{kind.__name__}")}
    # What is left are Python 3.7's constants, kept in `ast` until 3.13 as names for old code.
    assert unknown <= {"Num", "Str", "Bytes", "NameConstant", "Ellipsis"}


# ── it only reads ────────────────────────────────────────────────────────────────────────────────────────────────────


def check_only_reads(source: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some files of the standard library have odd escapes on purpose
        tree = ast.parse(source)
    before = ast.dump(tree, include_attributes=True)
    found = review(tree, RESERVED)
    assert ast.dump(tree, include_attributes=True) == before
    lines = source.count("\n") + source.count("\r") + 1
    assert all(1 <= refusal.line <= lines and refusal.message and refusal.hint for refusal in found)
    assert not any("could not be reviewed" in refusal.message or "syntax" in refusal.message for refusal in found)
    assert bool(explain(found, source)) == bool(found)


@given(path=st.sampled_from(STDLIB))
def test_the_standard_library_can_be_reviewed_and_stays_as_it_is(path: Path) -> None:
    check_only_reads(path.read_text(encoding="utf-8"))


NAMES = st.sampled_from(["a", "b", "_c", "SUBMIT", "input", "eval", "__name__", "__class__", "__x", "os", "print"])
TEXTS = st.one_of(st.text(max_size=12), st.sampled_from(["{0.__class__}", "{", "{a.b[c].gi_frame:{d.e}}", "__mro__"]))


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds("{}.{}".format, st.one_of(NAMES, inner.map("({})".format)), NAMES),
        st.builds("{}[{}:{}]".format, NAMES, inner, inner),
        st.builds("getattr({}, {})".format, inner, TEXTS.map(repr)),
        st.builds("f(*{}, {}={})".format, inner, NAMES, inner),
        st.builds("[{} for {} in {} if {}]".format, inner, NAMES, inner, inner),
        st.builds("(lambda {}: {})".format, NAMES, inner),
        st.builds("({} := {})".format, NAMES, inner),
        st.builds("(yield {})".format, inner),
        st.builds("f'{{{}!r:>{{{}}}}}'".format, NAMES, NAMES),
    )


EXPRESSIONS = st.recursive(st.one_of(NAMES, TEXTS.map(repr), st.integers().map(str)), larger, max_leaves=12)
STATEMENTS = st.one_of(
    EXPRESSIONS,
    st.builds("{} = {}".format, NAMES, EXPRESSIONS),
    st.builds("{}.{} += {}".format, NAMES, NAMES, EXPRESSIONS),
    st.builds("def {}({}, *{}): return {}".format, NAMES, NAMES, NAMES.map("{}_s".format), EXPRESSIONS),
    st.builds("class {}({}): {} = {}".format, NAMES, EXPRESSIONS, NAMES, EXPRESSIONS),
    st.builds("for {} in {}: pass".format, NAMES, EXPRESSIONS),
    st.builds("with {} as {}: {}".format, EXPRESSIONS, NAMES, EXPRESSIONS),
    st.builds("try: pass\nexcept* {} as {}: pass".format, EXPRESSIONS, NAMES),
    st.builds("match {}:\n  case {{'k': [*_], **{}}}: pass".format, EXPRESSIONS, NAMES),
    st.builds("from {} import {} as {}".format, NAMES, NAMES, NAMES),
    st.builds("global {}".format, NAMES),
    st.builds("del {}".format, NAMES),
)


@settings(max_examples=150)
@given(st.lists(STATEMENTS, max_size=4).map("\n".join))
def test_any_code_can_be_reviewed_and_stays_as_it_is(source: str) -> None:
    check_only_reads(source)


@given(st.text(alphabet="{}[].:!_ac0", max_size=30))
def test_any_text_may_look_like_a_format_string(text: str) -> None:
    check_only_reads(f"x = {text!r}")


# ── what the author reads ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_explanation_says_where_what_and_what_instead() -> None:
    source = "import requests\nrows = []\nfor item in context:\n    kind = item.__globals__\n    rows.append(kind)\n"
    assert explain(refusals(source), source) == (
        "This code was not run: 2 things in it are not allowed here.\n"
        "\n"
        "line 1: `requests` needs the network, and the sandbox has no network.\n"
        "    import requests\n"
        "  Instead: Use the data and the functions you were given.\n"
        "\n"
        "line 4: `item.__globals__` reaches into Python's internals.\n"
        "    kind = item.__globals__\n"
        "  Instead: Use the name of the variable or function directly."
    )


def test_the_explanation_of_a_reserved_name() -> None:
    source = "SUBMIT = 'done'"
    assert explain(refusals(source), source) == (
        "This code was not run: one thing in it is not allowed here.\n"
        "\n"
        "line 1: `SUBMIT` belongs to the session and cannot be bound again.\n"
        "    SUBMIT = 'done'\n"
        "  Instead: Choose another name, such as `my_SUBMIT`."
    )


def test_a_warning_does_not_say_that_the_code_was_stopped() -> None:
    assert explain(refusals("eval('1')"), "eval('1')", "warn").startswith("This code was run: one thing")


def test_the_explanation_finds_lines_as_python_counts_them() -> None:
    source = "a = '\u2028\x0c'\r\nb = 1\reval('x')\n"
    assert "    eval('x')\n" in explain(refusals(source), source)


def test_the_explanation_stays_short() -> None:
    source = "x = '" + "a" * 10_000 + "' + eval('1')\n" + "eval('1')\n" * 100
    text = explain(refusals(source), source)
    assert text.endswith("... and 93 more.")
    assert len(text) < 3000


def test_nothing_refused_needs_no_explanation() -> None:
    assert explain((), "x = 1") == ""


def test_a_refusal_reads_as_a_sentence() -> None:
    (found,) = refusals("a = 1\n\nb = obj.__globals__")
    assert str(found) == (
        "line 3: `obj.__globals__` reaches into Python's internals. Use the name of the variable or function directly."
    )


def test_the_work_of_a_review_grows_with_the_cell_and_no_faster() -> None:
    assert _calls(400) < 2.2 * _calls(200) < 400 * 1000


def _calls(count: int) -> int:
    """How many calls the review of that many lines makes: the same on every machine, unlike its time."""
    lines = [
        f"result_{i} = [llm_query(f'{{part}} {i}') for part in context[{i}:{i + 9}].split() if len(part) > {i % 7}]"
        for i in range(count)
    ]
    random.Random(0).shuffle(lines)
    tree = ast.parse("\n".join(lines))
    calls = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        found = review(tree, RESERVED)
    finally:
        sys.setprofile(before)
    assert found == ()
    return calls
