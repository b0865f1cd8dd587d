"""Host calls: from any thread, many at once, answered or refused, and cancelled with their session."""

from __future__ import annotations

import asyncio
import contextvars
import socket
import threading
import time

import pytest

import sandbox


def test_arguments_and_results_are_json_both_ways(open_session):
    seen = []

    def keep(*args, **kwargs):
        seen.append((args, kwargs))
        return {"list": [1, 2.5, None, True], "text": "ü"}

    result = open_session(functions={"keep": keep}).run("keep(1, 'two', [3], k={'a': None})")
    assert seen == [((1, "two", [3]), {"k": {"a": None}})]
    assert result.value_repr == "{'list': [1, 2.5, None, True], 'text': 'ü'}"
    assert result.calls == 1


def test_functions_can_be_exchanged_between_cells(open_session):
    session = open_session(functions={"one": lambda: 1, "both": lambda: "old"})
    assert session.run("kept = one()\nboth()").value_repr == "'old'"
    session.set_functions({"two": lambda: 2, "both": lambda: "new"})
    assert session.run("(kept, two(), both())").value_repr == "(1, 2, 'new')"
    assert session.run("one()").error.name == "NameError"
    session.set_functions({})
    assert session.run("two()").error.name == "NameError"
    assert session.run("two = 5\ntwo").value_repr == "5"
    session.set_functions({"two": lambda: 2})
    assert session.run("two()").value_repr == "2"


def test_a_function_that_was_taken_back_is_not_called_whatever_a_cell_kept_of_it(open_session):
    session = open_session(functions={"secret": lambda: "told"})
    session.run("kept = secret")
    session.set_functions({"other": lambda: 1})
    assert session.run("kept()").error.name == "NameError"


def test_a_function_without_a_usable_name_is_refused_and_the_others_stay(open_session):
    session = open_session(functions={"one": lambda: 1})
    with pytest.raises(sandbox.InputError, match="class"):
        session.set_functions({"class": lambda: 2})
    assert session.run("one()").value_repr == "1"


def test_calls_from_many_threads_get_their_own_answers(open_session):
    session = open_session(functions={"double": lambda x: (time.sleep(0.001 * (x % 7)), 2 * x)[1]})
    result = session.run(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(16) as executor:\n"
        "    answers = list(executor.map(double, range(300)))\n"
        "answers == [2 * i for i in range(300)]"
    )
    assert result.error is None
    assert (result.value_repr, result.calls) == ("True", 300)


def test_calls_are_made_at_the_same_time(open_session):
    meeting = threading.Barrier(8, timeout=20)
    session = open_session(functions={"meet": lambda: meeting.wait() >= 0})
    result = session.run(
        "import threading\n"
        "threads = [threading.Thread(target=meet) for _ in range(7)]\n"
        "for t in threads: t.start()\n"
        "meet()\n"
        "for t in threads: t.join()\n"
        "'all met'"
    )
    assert result.value_repr == "'all met'"


def test_no_more_calls_than_allowed_are_made_at_the_same_time(open_session):
    lock, now, most = threading.Lock(), 0, 0

    def busy():
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.02)
        with lock:
            now -= 1

    session = open_session(functions={"busy": busy}, limits=sandbox.Limits(parallel_calls=3))
    session.run(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(12) as executor:\n"
        "    list(executor.map(lambda _: busy(), range(24)))"
    )
    assert most == 3


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ValueError("bad value"), "ValueError"),
        (KeyError("missing"), "KeyError"),
        (TimeoutError("too slow"), "TimeoutError"),
    ],
)
def test_a_host_exception_is_the_same_exception_in_the_cell(open_session, error, name):
    def fail():
        raise error

    session = open_session(functions={"fail": fail})
    result = session.run(f"try:\n    fail()\nexcept {name} as e:\n    print('caught', e)")
    assert "caught" in result.stdout
    assert session.run("fail()").error.name == name


def test_a_host_exception_that_python_does_not_know_keeps_its_name(open_session):
    class RateLimited(Exception):
        pass

    def fail():
        raise RateLimited("later")

    error = open_session(functions={"fail": fail}).run("fail()").error
    assert (error.name, error.message) == ("RateLimited", "later") or error.name.endswith("RateLimited")
    assert "later" in error.traceback


def test_a_host_function_keeps_its_documentation_and_signature(open_session):
    def ask(prompt: str, *, model: str = "small") -> str:
        """Ask a smaller model."""
        return prompt

    session = open_session(functions={"ask": ask})
    assert session.run("ask.__doc__, ask.__name__").value_repr == "('Ask a smaller model.', 'ask')"
    assert "model" in session.run("help(ask)").stdout


def test_arguments_that_are_not_json_are_the_callers_error(open_session):
    session = open_session(functions={"ask": lambda x: x})
    error = session.run("ask(lambda: 1)").error
    assert error.name == "TypeError"
    assert "JSON" in error.message
    assert session.run("ask(1)").value_repr == "1"


def test_a_result_that_is_not_json_is_named(open_session):
    error = open_session(functions={"thing": object}).run("thing()").error
    assert error.name == "HostError"
    assert "not JSON" in error.message


def test_arguments_that_are_too_large_are_refused_and_the_session_goes_on(open_session):
    session = open_session(functions={"ask": len}, limits=sandbox.Limits(call_bytes=10_000))
    error = session.run("ask('x' * 20_000)").error
    assert error.name == "HostCallRefused"
    assert "10,000" in error.message
    assert session.run("ask('x' * 9_000)").value_repr == "9000"


def test_a_result_that_is_too_large_is_refused_and_the_session_goes_on(open_session):
    session = open_session(functions={"text": lambda n: "x" * n}, limits=sandbox.Limits(call_bytes=10_000))
    assert session.run("text(20_000)").error.name == "HostCallRefused"
    assert session.run("len(text(9_000))").value_repr == "9000"


def test_large_arguments_and_results_arrive_whole(open_session):
    session = open_session(functions={"reverse": lambda text: text[::-1]})
    code = "import random\ntext = ''.join(random.choices('abcdef', k=3_000_000))\nreverse(text) == text[::-1]"
    assert session.run(code).value_repr == "True"


def test_call_number_n_plus_1_is_refused_where_it_is_made(open_session):
    made = []
    session = open_session(functions={"ask": made.append}, limits=sandbox.Limits(host_calls=5))
    result = session.run("for i in range(10):\n    ask(i)")
    assert made == [0, 1, 2, 3, 4]
    assert result.error.name == "HostCallRefused"
    assert result.error.line == 2
    assert isinstance(result.limit, sandbox.HostCallLimit)
    assert result.limit.survived
    assert session.run("1").value_repr == "1"


def test_among_300_calls_sent_at_once_no_more_than_the_limit_are_made(open_session):
    made = []
    session = open_session(functions={"ask": made.append}, limits=sandbox.Limits(host_calls=50))
    result = session.run(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def one(i):\n"
        "    try:\n"
        "        ask(i)\n"
        "        return True\n"
        "    except Exception as e:\n"
        "        return False\n"
        "with ThreadPoolExecutor(20) as executor:\n"
        "    ok = sum(executor.map(one, range(300)))\n"
        "ok"
    )
    assert (result.value_repr, len(made)) == ("50", 50)


def test_an_asynchronous_host_function_works_in_a_synchronous_session(open_session):
    async def slow(x):
        await asyncio.sleep(0.01)
        return x + 1

    assert open_session(functions={"slow": slow}).run("slow(1)").value_repr == "2"


def test_a_host_function_finds_the_context_of_whoever_runs_the_cell(open_session):
    setting = contextvars.ContextVar("setting", default="nobody's")

    async def asynchronous():
        return setting.get()

    session = open_session(functions={"plain": setting.get, "asynchronous": asynchronous})
    token = setting.set("mine")
    try:
        result = session.run("print([plain() for _ in range(3)], asynchronous())")
    finally:
        setting.reset(token)
    assert result.text.strip() == "['mine', 'mine', 'mine'] mine"


def test_stop_cell_ends_the_cell_at_once_whatever_it_catches(open_session):
    submitted = []

    def submit(value):
        submitted.append(value)
        raise sandbox.StopCell

    session = open_session(functions={"SUBMIT": submit})
    result = session.run(
        "before = 1\n"
        "try:\n"
        "    SUBMIT(42)\n"
        "    after = 1\n"
        "except BaseException:\n"
        "    caught = 1\n"
        "finally:\n"
        "    done = 1\n"
        "    SUBMIT(43)\n"
    )
    assert (result.ok, result.stopped, submitted) == (True, True, [42])
    assert list(session.variables()) == ["before"]
    assert session.run("before").value_repr == "1"


def test_stop_cell_works_from_a_thread_and_from_a_coroutine(open_session):
    def submit():
        raise sandbox.StopCell

    session = open_session(functions={"SUBMIT": submit})
    threaded = session.run("import threading\nt = threading.Thread(target=SUBMIT)\nt.start()\nt.join()\nafter = 1")
    assert threaded.stopped
    awaited = session.run("import asyncio\nasync def f():\n    SUBMIT()\nawait f()\nafter = 1")
    assert awaited.stopped
    assert "after" not in session.variables()
    assert session.run("await asyncio.sleep(0, 'a loop again')").value_repr == "'a loop again'"


def test_stop_cell_works_from_an_asynchronous_host_function(open_session):
    async def submit():
        raise sandbox.StopCell

    result = open_session(functions={"SUBMIT": submit}).run("SUBMIT()\nx = 1")
    assert result.stopped


def test_waiting_for_the_host_does_not_count_as_time_of_the_cell(open_session):
    limits = sandbox.Limits(cell_seconds=1.0)
    session = open_session(functions={"slow": lambda: time.sleep(1.5)}, limits=limits)
    result = session.run("slow()\n'done'")
    assert (result.value_repr, result.limit) == ("'done'", None)
    assert result.seconds > 1.5
    assert result.busy_seconds < 1.0


def test_a_busy_loop_beside_a_host_call_does_count(open_session):
    limits = sandbox.Limits(cell_seconds=0.5)
    release = threading.Event()
    session = open_session(functions={"slow": lambda: release.wait(20)}, limits=limits)
    result = session.run("import threading\nthreading.Thread(target=slow).start()\nwhile True: pass")
    release.set()
    assert isinstance(result.limit, sandbox.CellTimeLimit)


def test_closing_the_session_cancels_asynchronous_calls(open_session):
    cancelled = threading.Event()
    started = threading.Event()

    async def forever():
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    session = open_session(functions={"forever": forever})
    threading.Thread(target=lambda: (started.wait(30), session.close())).start()
    with pytest.raises(sandbox.SessionClosed):
        session.run("forever()")
    assert cancelled.wait(30)


def test_calls_that_wait_their_turn_are_not_made_after_the_session_is_closed(open_session):
    made = []
    release = threading.Event()
    both = threading.Barrier(3)

    def ask(i):
        made.append(i)
        both.wait(30)
        release.wait(30)

    session = open_session(functions={"ask": ask}, limits=sandbox.Limits(parallel_calls=2))
    threading.Thread(target=lambda: (both.wait(30), session.close())).start()
    with pytest.raises(sandbox.SessionClosed):
        session.run(
            "from concurrent.futures import ThreadPoolExecutor\nlist(ThreadPoolExecutor(10).map(ask, range(10)))"
        )
    release.set()
    time.sleep(0.2)
    assert len(made) == 2


def test_nobody_sees_a_session_closed_before_its_calls_are_cancelled(open_session, monkeypatch):
    """Whoever closes it may be kept waiting by the machine at any line."""
    made = []
    release, both = threading.Event(), threading.Barrier(3)

    def ask(i):
        made.append(i)
        both.wait(30)
        release.wait(30)

    session = open_session(functions={"ask": ask}, limits=sandbox.Limits(parallel_calls=2))
    close = session._calls.close
    monkeypatch.setattr(session._calls, "close", lambda: (time.sleep(0.5), close()))
    closing = threading.Thread(target=lambda: (both.wait(30), session.close()))
    closing.start()
    with pytest.raises(sandbox.SessionClosed):
        session.run(
            "import threading\nthreads = [threading.Thread(target=ask, args=(i,)) for i in range(10)]\n"
            "for t in threads: t.start()\n"
            "while True:\n    print('x', flush=True)"
        )
    release.set()
    closing.join()
    time.sleep(0.2)
    assert len(made) == 2


def test_an_answer_after_the_end_goes_to_no_descriptor_of_others(open_session):
    """The numbers of closed descriptors are used again at once."""
    release, asked = threading.Event(), threading.Event()

    def ask():
        asked.set()
        release.wait(30)
        return "x" * 1000

    session = open_session(functions={"ask": ask})
    closing = threading.Thread(target=lambda: (asked.wait(30), session.close()))
    closing.start()
    with pytest.raises(sandbox.SessionClosed):
        session.run("ask()")
    closing.join()
    pairs = [socket.socketpair() for _ in range(40)]
    session.interrupt()
    session._link.poke()  # as the thread of a host function does that has answered
    release.set()
    time.sleep(0.2)
    for ours, theirs in pairs:
        for end in (ours, theirs):
            end.setblocking(False)
            with pytest.raises(BlockingIOError):
                end.recv(1)
    for ours, theirs in pairs:
        ours.close()
        theirs.close()


def test_values_that_json_does_not_know_arrive_as_plain_ones(open_session):
    seen = []
    session = open_session(functions={"keep": seen.append})
    result = session.run(
        "import dataclasses, datetime, decimal, enum, uuid, numpy, pandas\n"
        "@dataclasses.dataclass\nclass Point:\n    x: int\n    y: set\n"
        "class Color(enum.Enum):\n    RED = 'red'\n"
        "keep({'set': {2, 1}, 'date': datetime.date(2026, 1, 2), 'point': Point(1, {3}), 'color': Color.RED,\n"
        "      'number': numpy.int64(7), 'array': numpy.arange(3), 'decimal': decimal.Decimal('1.5'),\n"
        "      'keys': {'a': 1}.keys(),\n"
        "      'series': pandas.Series([1, 2])})"
    )
    assert result.error is None, result.error
    assert seen == [
        {
            "set": [1, 2], "date": "2026-01-02", "point": {"x": 1, "y": [3]}, "color": "red", "number": 7,
            "array": [0, 1, 2], "decimal": "1.5", "keys": ["a"], "series": {"0": 1, "1": 2},
        }
    ]  # fmt: skip


def test_a_function_that_asks_for_types_gets_them(open_session):
    from sandbox.tagged import type_names, untagged

    seen = []

    @sandbox.with_types
    def keep(value):
        seen.append((untagged(value), type_names(value)))

    open_session(functions={"keep": keep}).run("keep({'a/b': [{1}], 'c': 1})")
    assert seen == [({"a/b": [[1]], "c": 1}, {"/a~1b/0": "set"})]


def test_helpers_run_in_the_kernel_and_cannot_be_rebound(open_session):
    source = (
        "import re\n"
        "def words(text):\n"
        "    'The words.'\n"
        "    return _split(text)\n"
        "def _split(text):\n"
        "    return re.findall(r'\\w+', text)\n"
    )
    session = open_session(inputs={"doc": "a b, c"}, helpers=source)
    assert session.run("words(doc)").value_repr == "['a', 'b', 'c']"
    assert session.run("words = 1").error.name == "Refused"
    assert session.run("_split").error.name == "NameError"
    assert list(session.variables()) == ["doc"]


def test_a_quick_function_is_called_by_the_thread_that_watches_the_cell(open_session):
    @sandbox.quick
    def who():
        return threading.current_thread().name

    def fail():
        raise ValueError("no")

    session = open_session(functions={"who": who, "fail": sandbox.quick(fail)})
    assert session.run("who()").value_repr == repr(threading.current_thread().name)
    assert session.run("fail()").error.name == "ValueError"
