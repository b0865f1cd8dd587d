"""Variables that come along with a cell's result: the same as `variables()` says, after every ending of a cell."""

from __future__ import annotations

import pytest

import sandbox
from sandbox import Limits
from sandbox.collector import COMM, Collector
from sandbox.variables import KnownVariables
from sandbox.wire import Message


def stop():
    raise sandbox.StopCell


def test_they_are_what_variables_says(open_session):
    session = open_session(inputs={"doc": "text"}, functions={"stop": stop})
    result = session.run("total = sum(range(10))\nnames = ['a', 'b']\nprint(total)", variables=True)
    assert result.variables == session.variables()
    assert list(result.variables) == ["doc", "total", "names"]
    assert (result.variables["total"].value, result.variables["names"].value) == (45, ["a", "b"])


def test_they_come_only_where_they_are_asked_for(session):
    assert session.run("x = 1").variables is None
    assert session.run("x = 1", variables=True).variables["x"].value == 1


def test_what_a_later_cell_changes_inside_a_value_is_seen(session):
    session.run("rows = [1]\nby_name = {'a': [1]}", variables=True)
    seen = session.run("rows.append(2)\nby_name['a'][0] = 5", variables=True).variables
    assert (seen["rows"].value, seen["by_name"].value) == ([1, 2], {"a": [5]})
    assert "rows" not in session.run("del rows", variables=True).variables


@pytest.mark.parametrize("code", ["x = 1\n1 / 0", "x = 1\nimport sys\nsys.exit()", "x = 1\nstop()\nx = 2"])
def test_they_come_after_a_cell_that_did_not_get_to_its_end(open_session, code):
    session = open_session(functions={"stop": stop})
    assert session.run(code, variables=True).variables["x"].value == 1


def test_they_come_after_a_cell_that_ran_out_of_time(open_session):
    session = open_session(limits=Limits(cell_seconds=1.0))
    result = session.run(
        "x = 1\nwhile True:\n    try:\n        pass\n    except BaseException:\n        pass", variables=True
    )
    assert isinstance(result.limit, sandbox.CellTimeLimit)
    assert result.limit.survived
    assert result.variables["x"].value == 1


def test_they_come_after_a_cell_that_ran_out_of_memory(open_session):
    session = open_session(limits=Limits(memory_bytes=64 << 20))
    result = session.run("x = 1\nkept = []\nwhile True: kept.append(bytearray(1 << 20))", variables=True)
    assert isinstance(result.limit, sandbox.MemoryLimit)
    assert session.alive
    assert result.variables is None or result.variables["x"].value == 1


def test_there_are_none_when_the_kernel_is_gone(open_session):
    session = open_session(policy="off")
    result = session.run("x = 1\nimport os\nos._exit(1)", variables=True)
    assert isinstance(result.death, sandbox.KernelDied)
    assert result.variables is None


def test_a_refused_cell_brings_them_too(session):
    session.run("x = 1")
    result = session.run("open('/etc/passwd').__class__.__bases__[0].__subclasses__()", variables=True)
    assert result.error.name == "Refused"
    assert result.variables["x"].value == 1


def test_very_many_large_values_are_not_too_much_for_one_message(open_session):
    session = open_session(policy="off", limits=Limits(output_bytes=1000))
    code = "for number in range(600):\n    globals()[f'v{number}'] = 'é' * 4900"
    result = session.run(code, variables=True)
    assert result.ok, result
    assert session.alive
    assert len(result.variables) == 500  # `number` among them
    assert result.variables["v0"].value == "é" * 4900
    assert not result.variables["v498"].has_value  # all of them together are too much
    assert result.variables["v498"].preview.startswith("'éé")


def test_a_cell_brings_short_values_and_texts_along_and_longer_ones_are_there_when_asked_for(open_session):
    session = open_session()
    along = session.run(
        "short = list(range(200))\nlong = list(range(400))\ntext = 'x' * 2000", variables=True
    ).variables
    assert along["short"].value == list(range(200))
    assert not along["long"].has_value
    assert along["long"].size == 400
    assert along["long"].preview.startswith("[0, 1, 2, 3, ")
    assert along["text"].value == "x" * 2000
    assert session.variables()["long"].value == list(range(400))
    assert not session.variables(value_bytes=1_999)["text"].has_value
    session.run("text = 'x' * 20_000")
    assert session.variables(value_bytes=30_000)["text"].value == "x" * 20_000


HARD_TO_SEE = [
    ("v = list(range(5000))", "v[4000] = 0"),
    ("v = list(range(400))", "v[200] = None"),
    ("v = [1] * 900", "v[300] = True"),
    ("v = [None if i % 7 == 0 else i for i in range(400)]", "v[200] = 7"),
    ("v = [str(n) for n in range(5000)]", "v[4000] = 'x'"),
    ("v = {n: n for n in range(5000)}", "v[4000] = 0"),
    ("v = {str(n): float(n) for n in range(5000)}", "v['4000'] = 0.0"),
    ("v = {str(n): n for n in range(300)}", "v['150'] = None"),
    ("v = {str(n): [n] for n in range(200)}", "v['150'].append(5)"),
    ("v = [{'id': n, 'n': n} for n in range(150)]", "v[100]['n'] = 999"),
    ("v = tuple(range(400))", "v = (*v[:300], 0, *v[301:])"),
    ("v = 'x' * 30_000", "v = v[:20_000] + 'y' + v[20_001:]"),
]


@pytest.mark.parametrize(("make", "change"), HARD_TO_SEE)
def test_a_change_that_nothing_shows_is_said(make, change, open_session):
    session = open_session()
    first = session.run(make, variables=True).variables["v"]
    unchanged = session.run("x = 1", variables=True).variables["v"]
    assert (unchanged, unchanged.changed) == (first, False)
    changed = session.run(change, variables=True).variables["v"]
    assert (changed.size, changed.preview, changed.has_value) == (first.size, first.preview, False)
    assert changed.changed
    assert not session.run("x = 2", variables=True).variables["v"].changed
    assert session.run(make, variables=True).variables["v"].changed
    assert not session.run(make, variables=True).variables["v"].changed  # made anew, and equal


def test_each_of_two_changes_in_a_row_is_said(open_session):
    session = open_session()
    session.run("v = list(range(400))", variables=True)
    for code in ("v[300] = None", "v[300] = 7", "v[300] = ask", "v[300] = 8"):
        told = session.run(f"ask = [1]\n{code}", variables=True).variables["v"]
        assert told.changed, code


ODD = """
ran = []
armed = False
class Key:
    def __hash__(self):
        return 1
    def __eq__(self, other):
        if armed:
            ran.append(1)
            {do}
        return self is other
d = {{Key(): n for n in range(60)}}
for key in list(d)[:40]:
    del d[key]
v = [Key() for _ in range(500)]
armed = True
"""


@pytest.mark.parametrize("do", ["raise ValueError", "raise SystemExit", "while True: pass"])
def test_looking_for_changes_runs_no_code_of_an_object(do, open_session):
    session = open_session(policy="off", limits=Limits(cell_seconds=5))
    first = session.run(ODD.format(do=do), variables=True)
    assert first.ok, first
    assert first.variables["d"].size == 20
    second = session.run("v[300] = Key()\nd[5] = 5", variables=True)  # 5 has another hash
    assert second.variables["d"].size == 21
    assert session.variables()["d"].size == 21
    assert session.run("len(ran)").value_repr == "0"


def test_what_was_told_is_not_kept_from_being_freed(open_session):
    session = open_session(limits=Limits(memory_bytes=1 << 30))
    for _ in range(3):
        result = session.run("pages = None\npages = ['x' * (10 << 20) + str(n) for n in range(60)]", variables=True)
        assert result.ok, result.error


def test_long_parts_are_not_compared_for_long(open_session):
    session = open_session(limits=Limits(cell_seconds=5))
    for _ in range(2):
        assert session.run("v = ['x' * (50 << 20)] * 10_000", variables=True).ok
        assert session.run("n = [1 << (8 * (4 << 20))] * 10_000", variables=True).ok


@pytest.mark.xdist_group("jupyter")
def test_a_kernel_of_another_make_is_asked_for_them(open_session):
    session = open_session(kernel_name="python3")
    assert session.run("x = [1, 2]", variables=True).variables["x"].value == [1, 2]


async def test_an_asynchronous_session_brings_them_too(pool):
    async def ask():
        return 7

    async with sandbox.AsyncSession(functions={"ask": ask}, pool=pool) as session:
        result = await session.run("x = ask()", variables=True)
        assert result.variables["x"].value == 7
        assert result.variables == await session.variables()


_HOSTILE = {
    "text": "all of them",
    "a list": [1],
    "variables that are text": {"variables": "all of them"},
    "junk": {"variables": [5, None, {}, {"name": 5}, {"name": "\ud800", "type": 7, "size": ["x"], "preview": {}}]},
    "all as before": {"variables": [{"name": "v", "same": True}, {"name": ["v"], "same": True}], "number": 10**400},
    "endless": {"variables": [{"name": f"v{number}", "preview": "x" * 200_000} for number in range(3000)]},
}


@pytest.mark.parametrize("forged", _HOSTILE)
def test_a_forged_account_is_checked_as_any_other(forged):
    got = Collector(Limits())
    got.request = "1"
    facts = {"variables": _HOSTILE[forged]}
    got.shell(Message("execute_reply", {}, {"msg_id": "1"}, {"status": "ok"}, {COMM: facts}), 100)
    found = got.variables(KnownVariables())
    assert found is None or len(found) <= 2000
    for name, one in (found or {}).items():
        assert isinstance(name, str)
        assert len((name + one.type + one.preview).encode()) <= 300_000


def test_a_kernel_that_never_ends_its_account_is_ended(open_session, monkeypatch):
    monkeypatch.setattr("sandbox.exchange.GRACE_SECONDS", 0.5)
    session = open_session(policy="off", limits=Limits(cell_seconds=0.5))
    result = session.run(
        "import gc, signal, time\n"
        "kernel = next(o for o in gc.get_objects() if type(o).__name__ == 'Kernel')\n"
        "signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
        "kernel._variables = lambda options: time.sleep(60)\n",
        variables=True,
    )
    assert isinstance(result.limit, sandbox.CellTimeLimit)
    assert not session.alive


def received(session, monkeypatch):
    """What comes over the wire with each cell from now on: the accounts, as the kernel sent them."""
    accounts = []
    read = KnownVariables.read
    monkeypatch.setattr(KnownVariables, "read", lambda self, *args: accounts.append(args[0]) or read(self, *args))
    return accounts


def test_what_has_not_changed_is_not_sent_again(open_session, monkeypatch):
    session = open_session(inputs={"doc": "text " * 100})
    accounts = received(session, monkeypatch)
    first = session.run("rows = [1, 2]\nby_name = {'a': 1}\nnested = [[1]]\nn = 10**9", variables=True).variables
    second = session.run("n += 1", variables=True).variables
    again = {"doc", "rows", "by_name"}
    assert {one["name"] for one in accounts[1]["variables"] if one.get("same")} == again
    assert all(second[name] == first[name] for name in again)
    assert second == session.variables()


def test_what_a_reader_does_to_a_value_is_not_seen_by_the_next(session):
    session.run("x = [1, 2]\ny = {'a': 1}", variables=True)
    for _ in range(2):
        seen = session.run("pass", variables=True).variables
        assert (seen["x"].value, seen["y"].value) == ([1, 2], {"a": 1})
        seen["x"].value.append(99)
        seen["y"].value.clear()


def test_names_that_read_the_same_are_told_anew_each_time(open_session):
    session = open_session(policy="off")
    session.run("globals()['\ufffd'] = [1]\nglobals()['\\ud800'] = [2]", variables=True)
    now = session.run("del globals()['\\ud800']", variables=True).variables
    assert now["\ufffd"].value == [1]


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ("x = [1, 2]", "x[0] = True", [True, 2]),
        ("x = [1, 2]", "x[0] = 1.0", [1.0, 2]),
        ("x = [1, 2]", "x.append(3)", [1, 2, 3]),
        ("x = [1, 2]", "x.reverse()", [2, 1]),
        ("x = {'a': 1, 'b': 2}", "x['b'] = 3", {"a": 1, "b": 3}),
        ("x = {'a': 1, 'b': 2}", "x['c'] = x.pop('b')", {"a": 1, "c": 2}),
        ("x = {'a': 1, 'b': 2}", "x['a'] = x.pop('a')", {"b": 2, "a": 1}),
        ("x = {'a': [1]}", "x['a'].append(2)", {"a": [1, 2]}),
        ("x = [(1, 2)]", "x[0] = (1, 3)", [[1, 3]]),
        ("x = 1", "x = True", True),
        ("x = 'a'", "x = 'b'", "b"),
        ("x = None", "x = 0", 0),
    ],
)
def test_every_change_is_seen(session, before, change, after):
    session.run(before, variables=True)
    session.run("pass", variables=True)
    value = session.run(change, variables=True).variables["x"].value
    assert (repr(value), list(value) if isinstance(value, dict) else None) == (
        repr(after),
        list(after) if isinstance(after, dict) else None,
    )


def test_an_object_that_takes_the_place_of_another_runs_no_code_of_its_own(open_session):
    session = open_session(policy="off")
    session.run("x = [1, 2]\ny = {'a': 1}\nz = 5", variables=True)
    result = session.run(
        "class Spy(int):\n"
        "    def __eq__(self, other): print('looked at'); return True\n"
        "    __hash__ = None\n"
        "x[0] = y['a'] = z = Spy(1)",
        variables=True,
    )
    assert (result.text, result.variables["x"].has_value) == ("", False)


def test_an_account_that_the_host_did_not_read_is_not_built_upon(session):
    session.run("x = [1]", variables=True)
    session._link.known.number += 1  # as if another one had been lost on the way
    assert session.run("pass", variables=True).variables["x"].value == [1]


def test_a_large_text_that_is_bound_anew_is_not_kept_alive(open_session):
    session = open_session(limits=Limits(memory_bytes=200 << 20))
    session.run("text = 'x' * (60 << 20)", variables=True)
    for _ in range(3):
        result = session.run("text = None\ntext = 'y' * (100 << 20)", variables=True)
        assert result.ok, result
    assert result.variables["text"].size == 100 << 20
