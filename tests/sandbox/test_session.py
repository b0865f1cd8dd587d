"""What a caller sees of a session: cells, results, state between cells."""

from __future__ import annotations

import json
import os
import threading
import time

import pytest

import sandbox


def test_a_cell_gives_back_output_and_the_value_of_its_last_expression(session):
    result = session.run("print('hello')\n1 + 1")
    assert (result.ok, result.stdout, result.value_repr, result.error) == (True, "hello\n", "2", None)


def test_a_cell_that_ends_with_a_statement_has_no_value(session):
    assert session.run("x = 3").value_repr is None
    assert session.run("None").value_repr is None


@pytest.mark.parametrize("value", [1, "ü", 2.5, True, [1, [None]], {"a": {"b": []}}])
def test_the_value_comes_as_json_where_that_is_asked_for(session, value):
    result = session.run(repr(value), json=True)
    assert json.loads(result.data["application/json"]) == value
    assert "application/json" not in session.run(repr(value)).data


@pytest.mark.parametrize("code", ["{1, 2}", "float('nan')", "object()", "'x' * 2_000_000", "a = []; a.append(a); a"])
def test_a_value_without_json_or_with_too_much_of_it_comes_as_text_only(session, code):
    result = session.run(code, json=True)
    assert result.error is None
    assert set(result.data) == {"text/plain"}


def test_a_cell_that_ends_itself_says_so(session):
    result = session.run("import sys\nprint('before')\nsys.exit()\nprint('after')")
    assert (result.ok, result.exited, result.text) == (True, True, "before\n")
    assert not session.run("1").exited


@pytest.mark.parametrize(
    "code",
    [
        "builtins.len = None",
        "builtins.print = builtins.isinstance = builtins.str = None\n1 / 0",
        "class A:\n    def __repr__(self):\n        builtins.len = builtins.type = None\n        return 'A'\nA()",
        "vars(builtins).clear()",
    ],
)
def test_a_cell_that_breaks_the_builtins_breaks_its_own_only(open_session, code):
    session = open_session(policy="off")
    session.run(f"import builtins\n{code}")
    result = session.run("print(len('abc'))")
    assert (result.death, result.text) == (None, "3\n")


def test_stdout_and_stderr_stay_in_order(session):
    result = session.run("import sys\nfor i in range(3):\n    print('out', i)\n    print('err', i, file=sys.stderr)\n")
    assert [(o.stream, o.text) for o in result.outputs] == [
        (stream, f"{word} {i}\n") for i in range(3) for stream, word in (("stdout", "out"), ("stderr", "err"))
    ]


def test_output_before_an_exception_is_kept(session):
    result = session.run("print('before')\n1 / 0\nprint('after')")
    assert result.stdout == "before\n"
    assert result.error.name == "ZeroDivisionError"
    assert result.error.line == 2


def test_the_traceback_holds_the_lines_of_the_cells_and_no_others(session):
    session.run("import json\ndef parse(text):\n    return json.loads(text)\n")
    error = session.run("x = 1\nparse('{')").error
    assert error.name == "JSONDecodeError"
    assert "parse('{')" in error.traceback
    assert "return json.loads(text)" in error.traceback
    assert 'File "<cell 1>", line 3, in parse' in error.traceback
    assert "decoder.py" not in error.traceback
    assert "sandbox/" not in error.traceback


def test_a_chain_of_exceptions_is_shown_whole(session):
    error = session.run("try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('no a') from e").error
    assert (error.name, error.message) == ("ValueError", "no a")
    assert "KeyError: 'a'" in error.traceback
    assert "direct cause" in error.traceback


def test_a_syntax_error_names_its_line(session):
    error = session.run("x = 1\nif x\n    pass").error
    assert (error.name, error.line) == ("SyntaxError", 2)
    assert "if x" in error.traceback


def test_an_exception_group_is_shown_with_its_parts(session):
    error = session.run("raise ExceptionGroup('two', [ValueError('one'), TypeError('other')])").error
    assert error.name == "ExceptionGroup"
    assert "ValueError: one" in error.traceback
    assert "TypeError: other" in error.traceback


def test_state_survives_an_exception_also_what_was_set_before_it(session):
    session.run("a = 1")
    session.run("b = 2\nraise RuntimeError\nc = 3")
    assert session.run("a, b, 'c' in dir()").value_repr == "(1, 2, False)"


def test_functions_see_globals_defined_later(session):
    session.run("def area():\n    return width * height")
    session.run("width = 2")
    session.run("height = 5")
    assert session.run("area()").value_repr == "10"


def test_names_with_an_underscore_survive(session):
    session.run("_private = 7\n_ = 8")
    assert session.run("_private + _").value_repr == "15"


@pytest.mark.parametrize("code", ["import sys; sys.exit()", "import sys; sys.exit(3)", "exit()", "raise SystemExit"])
def test_exit_ends_the_cell_and_not_the_session(session, code):
    result = session.run(f"x = 1\n{code}\nx = 2")
    assert result.ok
    assert session.run("x").value_repr == "1"


def test_exit_with_a_message_prints_it(session):
    result = session.run("import sys; sys.exit('enough')")
    assert (result.ok, result.stderr) == (True, "enough\n")


def test_top_level_await_works(session):
    result = session.run(
        "import asyncio\n"
        "async def twice(x):\n"
        "    await asyncio.sleep(0.01)\n"
        "    return 2 * x\n"
        "first = await twice(1)\n"
        "sum(await asyncio.gather(*(twice(i) for i in range(5)))) + first"
    )
    assert result.error is None
    assert result.value_repr == "22"


def test_async_for_and_async_with_work_at_the_top_level(session):
    result = session.run(
        "from contextlib import asynccontextmanager\n"
        "@asynccontextmanager\n"
        "async def numbers():\n"
        "    async def three():\n"
        "        for i in range(3):\n"
        "            yield i\n"
        "    yield three()\n"
        "seen = []\n"
        "async with numbers() as them:\n"
        "    async for one in them:\n"
        "        seen.append(one)\n"
        "seen"
    )
    assert result.value_repr == "[0, 1, 2]"


def test_numpy_and_pandas_work(session):
    result = session.run(
        "import numpy as np, pandas as pd\n"
        "frame = pd.DataFrame({'kind': ['a', 'b', 'a'], 'n': np.arange(3)})\n"
        "print(frame.groupby('kind').n.sum().to_dict())\n"
        "float(np.linalg.norm([3, 4]))"
    )
    assert result.error is None
    assert (result.stdout, result.value_repr) == ("{'a': 2, 'b': 1}\n", "5.0")


def test_dataclasses_pickling_and_type_hints_work_in_a_cell(session):
    result = session.run(
        "import dataclasses, pickle, typing\n"
        "@dataclasses.dataclass\n"
        "class Point:\n"
        "    x: int\n"
        "    y: 'int' = 2\n"
        "typing.get_type_hints(Point)['y'], pickle.loads(pickle.dumps(Point(1)))"
    )
    assert result.value_repr == "(<class 'int'>, Point(x=1, y=2))"


def test_files_can_be_written_and_read_in_the_scratch_directory(session):
    assert session.run("open('notes.txt', 'w').write('kept')").value_repr == "4"
    assert session.run("open('notes.txt').read()").value_repr == "'kept'"
    code = "import tempfile\nwith tempfile.TemporaryFile() as f:\n    f.write(b'x')\n'done'"
    assert session.run(code).value_repr == "'done'"


def test_a_module_written_to_the_scratch_directory_can_be_imported(session):
    session.run("open('helper.py', 'w').write('VALUE = 5')")
    assert session.run("import helper\nhelper.VALUE").value_repr == "5"


def test_threads_of_a_cell_run_and_print(session):
    result = session.run(
        "import threading\n"
        "threads = [threading.Thread(target=print, args=(f'{i}\\n',), kwargs={'end': ''}) for i in range(5)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()"
    )
    assert sorted(result.stdout.split()) == list("01234")


def test_what_a_library_writes_past_python_is_kept(session):
    result = session.run("import os\nos.write(2, b'from below')\n'done'")
    result_later = session.run("1")
    assert "from below" in result.text + result_later.text


def test_input_says_that_nobody_is_there(open_session):
    error = open_session(policy="off").run("input('name? ')").error
    assert error.name == "RuntimeError"
    assert "nobody" in error.message


def test_two_sessions_share_nothing(open_session):
    one, other = open_session(), open_session()
    one.run("secret = 1")
    assert other.run("secret").error.name == "NameError"
    assert one.pid != other.pid


def test_two_sessions_do_not_share_random_numbers(open_session):
    code = "import random, numpy\n(random.random(), float(numpy.random.rand()))"
    one, other = (open_session().run(code).value_repr for _ in range(2))
    assert one.split(",")[0] != other.split(",")[0]
    assert one.split(",")[1] != other.split(",")[1]


def test_a_closed_session_says_so(session):
    session.close()
    assert not session.alive
    with pytest.raises(sandbox.SessionClosed):
        session.run("1")
    session.close()  # twice is fine


def test_closing_from_another_thread_ends_a_running_cell(session):
    threading.Timer(0.3, session.close).start()
    with pytest.raises(sandbox.SessionClosed):
        session.run("import time; time.sleep(60)")


def test_closing_ends_the_process(session):
    pid = session.pid
    session.close()
    for _ in range(500):
        if not os.path.exists(f"/proc/{pid}"):
            return
        time.sleep(0.02)
    pytest.fail("the kernel still runs")


def test_interrupt_stops_the_cell_and_keeps_the_variables(open_session):
    begun = threading.Event()
    session = open_session(functions={"begin": begun.set})
    threading.Thread(target=lambda: (begun.wait(30), session.interrupt())).start()
    result = session.run("x = 5\nbegin()\nwhile True:\n    try:\n        pass\n    except BaseException:\n        pass")
    assert result.error.name == "CellStopped"
    assert session.run("x").value_repr == "5"


def test_an_alarm_that_a_cell_left_behind_does_not_meet_the_kernel(open_session):
    session = open_session(policy="off")
    session.run(
        "import signal\ndef late(*args): raise TimeoutError\nsignal.signal(signal.SIGALRM, late)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)\nx = 1\nraise ValueError"
    )
    session.run("import time\ntime.sleep(0.3)")
    assert session.run("x").value_repr == "1"


def test_a_kernel_that_dies_is_a_result_with_what_it_said(open_session):
    session = open_session(policy="off")
    # What is printed in the very last moment may be lost with the process; a moment before, it is not.
    result = session.run("print('still here', flush=True)\nimport ctypes, time\ntime.sleep(0.2)\nctypes.string_at(0)")
    assert result.death is not None
    assert isinstance(result.death, sandbox.KernelDied)
    assert "SIGSEGV" in str(result.death)
    assert "still here" in result.stdout
    assert "Segmentation fault" in result.stderr
    assert not session.alive
    with pytest.raises(sandbox.SessionClosed):
        session.run("1")


def test_a_long_value_is_cut(open_session):
    session = open_session(limits=sandbox.Limits(output_bytes=1000))
    result = session.run("'x' * 5000")
    assert len(result.value_repr) < 1100
    assert "more characters" in result.value_repr


def test_a_repr_that_fails_is_the_cells_error(session):
    result = session.run("class Bad:\n    def __repr__(self):\n        raise ValueError('no repr')\nBad()")
    assert result.error.name == "ValueError"


def test_lone_surrogates_can_be_printed(session):
    result = session.run("print('a\\ud800b')\n'\\udfff'")
    result.stdout.encode()
    assert result.stdout.startswith("a")


def test_the_policy_can_be_off_warn_or_enforce(open_session):
    code = "x = type((lambda: 0).__globals__)\n'ran'"
    refused = open_session(policy="enforce").run(code)
    assert refused.error.name == "Refused"
    assert "line 1" in refused.error.message
    warned = open_session(policy="warn").run(code)
    assert warned.value_repr == "'ran'"
    assert "__globals__" in " ".join(warned.warnings)
    plain = open_session(policy="off").run(code)
    assert (plain.value_repr, plain.warnings) == ("'ran'", ())


def test_an_unknown_policy_or_isolation_is_refused():
    with pytest.raises(sandbox.SandboxError, match="off, warn or enforce"):
        sandbox.Session(policy="strict")
    with pytest.raises(ValueError, match="no such isolation"):
        sandbox.Session(isolation="magic")


def test_reserved_names_cannot_be_rebound_and_are_put_back(open_session):
    session = open_session(inputs={"doc": "text"}, functions={"ask": lambda: 1}, protected=["doc"])
    assert session.run("ask = 5").error.name == "Refused"
    assert session.run("doc = 'invented'").error.name == "Refused"
    session.run("import sys; setattr(sys.modules['__main' + '__'], 'ask', None)")
    assert session.run("ask()").value_repr == "1"


def test_an_input_may_be_called_like_a_builtin(open_session):
    session = open_session(inputs={"input": "question", "vars": [1]})
    assert session.run("input, vars").value_repr == "('question', [1])"


@pytest.mark.parametrize("name", ["two words", "class", "__init__", "1st", ""])
def test_a_name_that_code_cannot_use_is_refused(name):
    with pytest.raises(sandbox.InputError, match="name"):
        sandbox.Session(inputs={name: 1})


def test_bad_options_are_refused_before_a_kernel_is_taken():
    with pytest.raises(sandbox.InputError, match="same name"):
        sandbox.Session(inputs={"a": 1}, functions={"a": print})
    with pytest.raises(sandbox.InputError, match="protected"):
        sandbox.Session(protected=["a"])
    with pytest.raises(sandbox.InputError, match="cannot be called"):
        sandbox.Session(functions={"a": 3})
    with pytest.raises(sandbox.InputError, match=r"input 'a' \(object\)"):
        sandbox.Session(inputs={"a": object()})


def test_public_names_are_what_the_package_says():
    for name in sandbox.__all__:
        assert getattr(sandbox, name) is not None
    assert dir(sandbox) == sandbox.__all__
    with pytest.raises(AttributeError, match="no attribute"):
        sandbox.nothing  # noqa: B018


def test_a_child_that_the_cell_forks_ends_with_the_cell(open_session):
    session = open_session(policy="off", isolation="namespaces")
    result = session.run(
        "import os\npid = os.fork()\nprint('once')\nif pid:\n    status = os.waitpid(pid, 0)[1]\npid > 0"
    )
    assert (result.stdout, result.value_repr) == ("once\n", "True")
    assert session.run("status").value_repr == "0"
