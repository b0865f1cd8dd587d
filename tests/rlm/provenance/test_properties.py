"""Properties of provenance over generated code: it never raises, and a literal is never called computed."""

from __future__ import annotations

import ast
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm.provenance.dataflow import Cell, analyze
from rlm.provenance.evidence import RunEvidence
from rlm.provenance.origins import Origin, origins

LOG = "".join(f"2024-01-{day:02} INFO worker {day} ready\nERROR disk {day} failed\n" for day in range(1, 29))
INPUTS = {"log": LOG, "rows": [{"n": index} for index in range(30)]}
LITERAL = 987_654
"""In no input, and no count of anything in one."""


def judge(*codes: str, answer: object = LITERAL, failed: tuple[int, ...] = ()) -> Origin:
    cells = [Cell(number, code, number not in failed) for number, code in enumerate(codes, 1)]
    program = analyze(cells, INPUTS, ["look_up"])
    return origins({"answer": answer}, program, INPUTS)[0]


# Ways to take a literal from one name to another, with the inputs nearby. `{x}` is the old name, `{y}` the new one.
HOPS = [
    "{y} = {x}",
    "{y} = ({x})",
    "{y} = [{x}, len(log)][0]",
    "{y} = {{'a': {x}, 'b': log}}['a']",
    "{y} = max({x}, 0)",
    "{y} = int(str({x}))",
    "{y} = {x} if log else len(log)",
    "{y} = {x} or len(log)",
    "{y} = log and {x}",
    "{y} = {x} + 0 * len(log)",
    "{y}, other = {x}, len(log)",
    "other, *{y}s = len(log), {x}\n{y} = {y}s[0]",
    "def f_{y}(value, text=log):\n    return value\n{y} = f_{y}({x})",
    "f_{y} = lambda text: {x}\n{y} = f_{y}(log)",
    "for {y} in [{x}]:\n    len(log)",
    "{y} = 0\nfor line in log.splitlines():\n    {y} = {x}",
    "{y} = len(log)\nif 'ERROR' in log:\n    {y} = {x}",
    "try:\n    {y} = {x}\nexcept ValueError:\n    {y} = len(log)",
    "{y}s = []\nfor line in log.splitlines()[:3]:\n    {y}s.append({x})\n{y} = {y}s[0]",
    "{y}s = list(log.splitlines())\n{y}t = {y}s\n{y}t[0] = {x}\n{y} = {y}s[0]",
    "class C_{y}:\n    value = len(log)\nC_{y}.value = {x}\n{y} = C_{y}.value",
    "class D_{y}:\n    def __init__(self, value, text):\n        self.value = value\n{y} = D_{y}({x}, log).value",
    "{y} = next((value for value in [{x}] if log), 0)",
    "{y} = {{'n': len(log)}}\n{y}.update(n={x})\n{y} = {y}['n']",
    "import json\n{y} = json.loads(json.dumps({x}))",
    "{y} = [{x} for line in log.splitlines()][-1]",
    "{y} = {{}}\n{y}.setdefault('k', {x})\n{y} = {y}.get('k', len(log))",
    "with open('x') as handle:\n    {y} = {x}\nlen(log)",
    "while True:\n    {y} = {x}\n    if log:\n        break",
    "match len(log):\n    case 0:\n        {y} = 0\n    case _:\n        {y} = {x}",
    "def g_{y}():\n    global {y}\n    {y} = {x}\n{y} = len(log)\ng_{y}()",
    "{y} = sorted([{x}], key=lambda value: len(log))[0]",
    "{y} = list(map(lambda line: {x}, log.splitlines()))[0]",
    "import functools\n{y} = functools.reduce(lambda a, b: {x}, log.splitlines())",
    "{y} = (lambda **names: names['v'])(v={x}, text=log)",
    "import re\n{y} = int(re.sub('.*', str({x}), log))",
    "({y} := {x})\nlen(log)",
    "{y} = f'{{{x}}}'\n{y} = int({y})",
]
STARTS = ["{y} = 987654", "{y} = int('987654')", "{y} = -(-987654)", "{y} = 987000 + 654", "{y} = 987_654.0"]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(STARTS), st.lists(st.sampled_from(HOPS), max_size=6), st.data())
def test_a_literal_is_never_called_computed(start: str, hops: list[str], data: st.DataObject) -> None:
    names = [f"v{index}" for index in range(len(hops) + 1)]
    pieces = [start.format(y=names[0])]
    pieces += [hop.format(x=x, y=y) for hop, x, y in zip(hops, names, names[1:], strict=False)]
    pieces.append(f"SUBMIT(answer={names[-1]})")
    cut = data.draw(st.integers(0, len(pieces) - 1))
    cells = ["\n".join(pieces[:cut]), "\n".join(pieces[cut:])]
    assert judge(*filter(None, cells)).kind not in ("computed", "said")


@pytest.mark.parametrize("hop", HOPS)
def test_each_hop_is_code_that_parses_and_keeps_the_literal(hop: str) -> None:
    ast.parse(hop.format(x="x", y="y"))
    assert judge("x = 987654", hop.format(x="x", y="y"), "SUBMIT(answer=y)").kind in ("typed", "defaulted", "none")


COMPUTED = [
    "SUBMIT(answer=len(log))",
    "SUBMIT({'answer': log.count('ERROR')})",
    "n = 0\nfor line in log.splitlines():\n    n += 1\nSUBMIT(answer=n)",
    "n = 0\nfor line in log.splitlines():\n    if 'ERROR' in line:\n        n = n + 1\nSUBMIT(answer=n)",
    "SUBMIT(answer=sum(1 for line in log.splitlines() if 'ERROR' in line))",
    "hits = []\nfor line in log.splitlines():\n    hits.append(line)\nSUBMIT(answer=len(hits))",
    "hits = [line for line in log.splitlines() if 'ERROR' in line]\nSUBMIT(answer=len(hits))",
    "from collections import Counter\nSUBMIT(answer=Counter(log.split())['ERROR'])",
    "counts = {}\nfor word in log.split():\n    counts[word] = counts.get(word, 0) + 1\nSUBMIT(answer=counts['ERROR'])",
    "from collections import defaultdict\nn = defaultdict(int)\nfor w in rows:\n    n[w] += 1\nSUBMIT(answer=n['a'])",
    "import re\nSUBMIT(answer=int(re.search(r'worker (\\d+)', log).group(1)))",
    "SUBMIT(answer=sum(row['n'] for row in rows))",
    "def count(text, word):\n    return text.count(word)\nSUBMIT(answer=count(log, 'ERROR'))",
    "total = 0\nfor row in rows:\n    total += row['n']\nSUBMIT(answer=total)",
    "import re\nn = 0\nfor m in re.finditer('ERROR', log):\n    n += 1\nSUBMIT(answer=n)",
    "import pandas as pd\nframe = pd.DataFrame(rows)\nSUBMIT(answer=int(frame['n'].sum()))",
    "import io, csv\nSUBMIT(answer=len(list(csv.reader(io.StringIO(log)))))",
    "i = n = 0\nlines = log.splitlines()\nwhile i < len(lines):\n    n += 1\n    i += 1\nSUBMIT(answer=n)",
    "SUBMIT(answer=len(set(line.split()[0] for line in log.splitlines())))",
    "SUBMIT(answer=max(rows, key=lambda row: row['n'])['n'])",
    "SUBMIT(answer=look_up(log))",
]


@pytest.mark.parametrize("code", COMPUTED)
def test_what_depends_on_an_input_is_computed(code: str) -> None:
    assert judge(code, answer=27_182).kind == "computed"


HOSTILE = [
    "exec('answer = 987654')\nSUBMIT(answer=answer)",
    "globals()['answer'] = 987654\nanswer = len(log)\nSUBMIT(answer=answer)",
    "SUBMIT(answer=eval('987654' or len(log)))",
    "send = SUBMIT\nsend(answer=987654)\nif False:\n    SUBMIT(answer=len(log))",
    "f = len.__self__\nSUBMIT(answer=len(log))",
    "import builtins\nbuiltins.len = lambda text: 987654\nSUBMIT(answer=len(log))",
    "import gc\nSUBMIT(answer=len(log))",
    "import sys\nsys.modules['re'].findall = lambda *a: [987654]\nimport re\nSUBMIT(answer=re.findall('x', log)[0])",
    "import re\nre.findall = lambda *a: [987654]\nSUBMIT(answer=re.findall('x', log)[0])",
    "setattr(C, 'x', 987654)\nSUBMIT(answer=len(log))",
    "def len(text):\n    return 987654\nSUBMIT(answer=len(log))",
    "def count(text):\n    return len(text)\nlen = lambda text: 987654\nSUBMIT(answer=count(log))",
    "def count(text):\n    return text.count('a')\ndef again():\n    return count(log)\n"
    "def count(text):\n    return 987654\nSUBMIT(answer=again())",
    "getattr(log, name)()\nSUBMIT(answer=len(log))",
    "from os import *\nSUBMIT(answer=len(log))",
    "if False:\n    SUBMIT(answer=len(log))\nelse:\n    SUBMIT(answer=987654)",
    "def late():\n    return value\nvalue = len(log)\nvalue = 987654\nSUBMIT(answer=late())",
    "log = [987654]\nSUBMIT(answer=log[0])",
    "print(len(log), 987654, 'answer = len(log)')\nSUBMIT(answer=987654)",
    "open('forged.py', 'w').write('def f(t): return 987654')\nimport forged\nSUBMIT(answer=forged.f(log))",
    "from forged.deep import f\nSUBMIT(answer=f(log))",
    "from collections import Counter\nCounter.most_common = lambda self, n=None: [('x', 987654)]\n"
    "SUBMIT(answer=Counter(log).most_common()[0][1])",
    "import operator\nd = {'x': len(log)}\noperator.setitem(d, 'x', 987654)\nSUBMIT(answer=d['x'])",
    "import __main__\nx = len(log)\n__main__.x = 987654\nSUBMIT(answer=x)",
    "from unittest import mock\nwith mock.patch('re.findall', return_value=[987654]):\n    import re\n"
    "    SUBMIT(answer=re.findall('x', log)[0])",
    "import sys\nx = len(log)\nsys._getframe().f_globals['x'] = 987654\nSUBMIT(answer=x)",
    "987654\nSUBMIT(answer=_ if log else len(log))",
    "get_ipython().run_cell('x = 987654')\nx = len(log)\nSUBMIT(answer=x)",
    "def SUBMIT(**outputs):\n    pass\nSUBMIT(answer=len(log))",
    "import functools\nsend = functools.partial(SUBMIT, answer=987654)\nsend()\n"
    "if not log:\n    SUBMIT(answer=len(log))",
    "def d(f):\n    return lambda text: 987654\n@d\ndef count(text):\n    return len(text)\nSUBMIT(answer=count(log))",
    "from dataclasses import dataclass\n@dataclass\nclass D:\n    text: str\n    n: int = 987654\n"
    "SUBMIT(answer=D(log).n)",
    "def g():\n    y = yield len(log)\n    yield y\nG = g()\nnext(G)\nSUBMIT(answer=G.send(987654))",
]


@pytest.mark.parametrize("code", HOSTILE)
def test_hostile_code_cannot_have_a_literal_called_computed(code: str) -> None:
    assert judge(code).kind in ("typed", "defaulted", "none")


def test_a_cell_that_failed_may_have_set_what_it_sets() -> None:
    assert judge("x = len(log)", "x = 987654\n1 / 0", "SUBMIT(answer=x)", failed=(2,)).kind == "typed"
    assert judge("x = len(log)", "y = 987654\n1 / 0", "SUBMIT(answer=x)", answer=7, failed=(2,)).kind == "computed"


SUBMITTED = [
    "SUBMIT(answer=log[{start}:{stop}])",
    "SUBMIT(answer=log[{start}:{stop}].strip())",
    "SUBMIT(answer=log.splitlines()[{line}])",
    "SUBMIT(answer=log.splitlines()[{line}].split()[-1].upper())",
    "SUBMIT(answer={text!r})",
    "text = {text!r} if 'ERROR' in log else log\nSUBMIT(answer=text)",
    "SUBMIT(answer=[{text!r}, log.splitlines()[{line}], 'not in the log'])",
    "SUBMIT(answer={{'a': log[{start}:{stop}], 'b': {{'c': {text!r}}}}})",
]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(SUBMITTED), st.integers(0, len(LOG)), st.integers(1, 60), st.integers(0, 55))
def test_a_span_of_an_input_holds_the_value(code: str, start: int, size: int, line: int) -> None:
    code = code.format(start=start, stop=start + size, line=line, text=LOG[start : start + size])
    submitted: list[object] = []
    exec(code, {"log": LOG, "SUBMIT": lambda answer: submitted.append(answer)})
    evidence = RunEvidence([Cell(1, code, True)], INPUTS).of_submitted({"answer": submitted[0]})
    assert evidence
    for piece in evidence:
        value: object = {"answer": submitted[0]}
        for step in piece.path.split("/")[1:]:
            value = value[int(step)] if isinstance(value, list) else value[step]  # type: ignore[index]
        assert (piece.kind == "quoted") <= (piece.span is not None)
        if piece.span is not None:
            assert piece.input == "log"
            assert isinstance(value, str)
            assert LOG[slice(*piece.span)].strip() == value.strip()
            assert piece.line == LOG.count("\n", 0, piece.span[0]) + 1


# Any code at all ------------------------------------------------------------------------------------------------------

FRAGMENTS = st.sampled_from(
    [*HOPS, *COMPUTED, *HOSTILE, "del x", "return 3", "yield", "await x", "nonlocal x", "*a, b = c", "lambda: (yield)"]
)


@st.composite
def mangled(draw: st.DrawFn) -> str:
    text = "\n".join(draw(st.lists(FRAGMENTS, min_size=1, max_size=5))).replace("{x}", "x").replace("{y}", "y")
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        text = text[:start] + draw(st.text(alphabet="()[]{}:=,.*@\n \tabxlog019'\"", max_size=6)) + text[end:]
    return text


@settings(max_examples=250, deadline=None)
@given(st.lists(mangled(), min_size=1, max_size=4), st.booleans(), st.one_of(st.integers(), st.text(), st.none()))
def test_no_code_makes_it_raise(codes: list[str], success: bool, answer: object) -> None:
    cells = [Cell(number, code, success) for number, code in enumerate(codes, 1)]
    program = analyze(cells, INPUTS, ["look_up"])
    found = origins({"answer": answer}, program, INPUTS)
    assert [one.path for one in found] == [("answer",)]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_no_text_makes_it_raise(code: str) -> None:
    assert judge(code, "SUBMIT(answer=987654)").kind in ("typed", "none")


@pytest.mark.parametrize(
    "code",
    [
        "x = " + "(" * 5_000,
        "x = " + "-" * 3_000 + "1",
        "x = " + "+".join(["y"] * 20_000),
        "x = y" + ".a" * 5_000,
        "x = " + "f(" * 90 + "1" + ")" * 90,
        "\n".join(" " * depth + f"for i{depth} in log:" for depth in range(90)) + "\n" + " " * 90 + "x = 1",
        "\n".join(" " * depth + "if x:" for depth in range(90)) + "\n" + " " * 90 + "x = 1",
        "\n".join(f"v{index + 1} = v{index} if log else v{index}" for index in range(3_000)),
        "\n".join(f"a{index % 50}.append(a{(index * 7) % 50})" for index in range(3_000)),
        "\n".join(f"for i in log:\n    n{index} = n{index - 1} + 1" for index in range(1, 1_000)),
        "\n".join(
            f"def f{index}(x):\n    return f{(index * 7) % 500}(x) + f{(index * 11) % 500}(x)" for index in range(500)
        ),
    ],
    ids=range(11),
)
def test_large_code_takes_little_time(code: str) -> None:
    started = time.process_time()
    judge(code, "SUBMIT(answer=x)")
    assert time.process_time() - started < 5.0
