"""Output: a gigabyte of it, and objects whose descriptions are traps."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.any_user
MB = 1 << 20

_FLOODS = {
    "print": "line = 'x' * (1 << 20)\nfor _ in range(1024):\n    print(line)",
    "stderr": "import sys\nline = 'x' * (1 << 20)\nfor _ in range(300):\n    sys.stderr.write(line)",
    "one-string": "print('x' * (64 << 20))",
    "many-small-lines": "for _ in range(200_000):\n    print('12345678')",
    "not-ascii": "line = '\\U0001f600' * (1 << 18)\nfor _ in range(100):\n    print(line)",
    "past-python": "import os\nwhile True:\n    os.write(1, b'x' * 65536)",
    "past-python-to-stderr": "import os\nwhile True:\n    os.write(2, b'x' * 65536)",
    "the-original-stream": "import sys\nwhile True:\n    sys.__stdout__.write('x' * 65536)",
    "a-child": "import subprocess\nsubprocess.run(['/usr/bin/yes'], timeout=20)",
    "threads": (
        "import threading\ndef f():\n    for _ in range(60): print('x' * (1 << 20))\n"
        "ts = [threading.Thread(target=f) for _ in range(4)]\nfor t in ts: t.start()\nfor t in ts: t.join()"
    ),
    "a-value": "'x' * (64 << 20)",
    "an-exception": "raise ValueError('x' * (64 << 20))",
    "warnings": "import warnings\nfor i in range(5000):\n    warnings.warn('w' * 10000 + str(i))",
    "a-deep-traceback": (
        "import sys\nsys.setrecursionlimit(20000)\ndef f(n):\n    return f(n - 1) if n else 1 / 0\nf(9000)"
    ),
    "a-long-chain-of-exceptions": (
        "def f(n):\n    try:\n        raise ValueError(n)\n    finally:\n        if n: f(n - 1)\nf(400)"
    ),
    "a-wide-group": "raise ExceptionGroup('g', [ValueError('x' * 1000) for _ in range(20000)])",
}


@pytest.mark.needs_root
@pytest.mark.parametrize("flood", _FLOODS)
def test_a_gigabyte_of_output(host, open_box, flood):
    box = open_box(limits={"cell_seconds": 6.0, "output_bytes": 100_000})
    before = host.forget_peak()
    ended = box.run(_FLOODS[flood], seconds=30)
    assert len(ended.text.encode()) <= 110_000
    assert len(ended.everything) < MB
    assert host.peak_memory() - before < 40 * MB  # less than any of these that is kept whole
    assert host.alive


_REPRS = {
    "raises": "raise ValueError('x')",
    "raises-base": "raise BaseException('x')",
    "exits": "raise SystemExit(7)",
    "interrupts": "raise KeyboardInterrupt",
    "not-text": "return 5",
    "recursive": "return repr(self)",
    "endless": "while True: pass",
    "enormous": "return 'x' * (100 << 20)",
    "lone-surrogates": "return '\\ud800' * 10",
    "null-bytes": "return '\\0' * 10 + '\\x1b]0;owned\\x07\\x1b[2J'",
    "kills": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "exits-the-process": "import os; os._exit(0)",
    "text-that-lies": (
        "class T(str):\n            def __len__(self): return -1\n"
        "            def __getitem__(self, i): raise SystemExit\n        return T('lie')"
    ),
    "replaces-stdout": "import sys; sys.stdout = None; return 'x'",
}


@pytest.mark.parametrize("trap", _REPRS)
def test_a_hostile_description(open_box, host, trap):
    box = open_box(limits={"cell_seconds": 1.0, "output_bytes": 100_000})
    ended = box.run(f"class Trap:\n    def __repr__(self):\n        {_REPRS[trap]}\ntrap = Trap()\ntrap", seconds=20)
    assert len(ended.everything) < MB
    ended.everything.encode()
    if ended.alive and ended.survived is not False and not ended.death:
        found = box.variables(seconds=20)
        assert "Trap" in found["trap"]["type"]
        assert "lie" not in found["trap"]["preview"]
    assert host.alive


_EXCEPTIONS = {
    "str-raises": "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
    "str-endless": "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E",
    "str-exits": "class E(Exception):\n    def __str__(self): raise SystemExit\nraise E",
    "str-not-text": "class E(Exception):\n    def __str__(self): return 5\nraise E",
    "a-giant-name": "raise type('E' * 10_000_000, (Exception,), {})('x')",
    "a-name-of-surrogates": "raise type('E\\ud800', (Exception,), {})('\\ud800')",
    "its-own-cause": "e = ValueError('x')\ne.__cause__ = e\nraise e",
    "a-circle-of-causes": "a, b = ValueError('a'), ValueError('b')\na.__cause__, b.__cause__ = b, a\nraise a",
    "a-hostile-metaclass": (
        "class M(type):\n    def __getattribute__(c, n):\n        raise SystemExit\n"
        "    def __instancecheck__(c, o):\n        raise SystemExit\n"
        "class E(Exception, metaclass=M): pass\nraise E"
    ),
    "a-syntax-error-of-wrong-types": "e = SyntaxError('x')\ne.filename, e.lineno, e.text = 5, 'x', 7\nraise e",
    "a-group-too-deep": "e = ValueError('x')\nfor _ in range(3000):\n    e = ExceptionGroup('g', [e])\nraise e",
    "an-exit-that-is-a-trap": "class T(str):\n    def __add__(self, o): raise ValueError\nraise SystemExit(T('x'))",
    "a-group-that-lies": (
        "class G(ExceptionGroup):\n    @property\n    def exceptions(self): return [self]\n"
        "raise G('g', [ValueError('x')])"
    ),
    "a-hook-for-tracebacks": (
        "import traceback, linecache\ntraceback.TracebackException.format = lambda *a, **k: 1 / 0\n"
        "linecache.getlines = lambda *a: 1 / 0\nraise ValueError('x')"
    ),
    "notes-that-are-traps": (
        "e = ValueError('x')\n"
        "e.__notes__ = [type('N', (), {'__str__': lambda s: 1 / 0})()] * 3 + ['n' * 10**7]\nraise e"
    ),
}


@pytest.mark.parametrize("trap", _EXCEPTIONS)
def test_a_hostile_exception(open_box, host, trap):
    box = open_box(limits={"cell_seconds": 1.0, "output_bytes": 100_000})
    ended = box.run(_EXCEPTIONS[trap], seconds=20)
    assert len(ended.everything) < 2 * MB
    ended.everything.encode()
    assert ended.error or trap == "an-exit-that-is-a-trap"
    assert host.alive


_VARIABLES = {
    "a-class-that-lies": "class C:\n    @property\n    def __class__(self): raise SystemExit\nx = C()",
    "a-hostile-metaclass": (
        "class M(type):\n    def __getattribute__(c, n): raise SystemExit\nclass C(metaclass=M): pass\nx = C()"
    ),
    "a-dict-with-hostile-keys": (
        "class K:\n    def __hash__(self): return 1\n    def __eq__(self, o):\n"
        "        while True: pass\nx = {K(): 1, K(): 2} if 0 else {K(): 1}"
    ),
    "a-list-that-contains-itself": "x = []\nx.append(x)",
    "a-list-too-deep": "x = []\nfor _ in range(100_000): x = [x]",
    "a-subclass-of-int": (
        "class I(int):\n    def __repr__(self): raise SystemExit\n    def __int__(self): raise SystemExit\nx = I(5)"
    ),
    "a-subclass-of-dict": (
        "class D(dict):\n    def items(self): raise SystemExit\n    def __iter__(self): raise SystemExit\nx = D(a=1)"
    ),
    "a-giant-integer": "x = 1 << 5_000_000",
    "a-name-of-a-million-letters": "globals()['n' * 1_000_000] = 1\nx = 1",
    "names-that-are-not-text": "globals()[5] = 1\nglobals()[('a',)] = 2\nx = 1",
    "names-with-surrogates": "globals()['\\ud800'] = '\\ud800'\nx = 1",
    "a-hundred-thousand-names": "globals().update((f'v{i}', i) for i in range(100_000))\nx = 1",
    "the-namespace-itself": "x = globals()",
}


@pytest.mark.parametrize("trap", _VARIABLES)
def test_a_hostile_variable(open_box, host, trap):
    """The account of the variables runs none of their code."""
    box = open_box(limits={"cell_seconds": 3.0})
    assert box.run(_VARIABLES[trap]).error is None
    found = box.variables(seconds=20)
    assert "x" in found or len(found) >= 100
    assert all(len(name) + len(one["preview"]) < 200_000 for name, one in found.items())
    assert box.run("1 + 1").value == "2"
