"""Sessions of several questions: what stays, what each question has of its own, and what the model is told."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import time

import pytest

import rlm
from rlm.budgets import FallbackTrigger
from rlm.errors import InvalidInputs, SessionError

LOG = "error disk\nok\nerror net\nok\n" * 50


def test_variables_imports_and_functions_stay(asked):
    one = asked(
        [
            "import re\ndef is_error(line): return bool(re.match('error', line))\n"
            "hits = [line for line in log.splitlines() if is_error(line)]\nSUBMIT(answer=len(hits))",
            "SUBMIT(answer=sum(1 for line in hits if re.search('disk', line) and is_error(line)))",
        ]
    )
    with one.predict.session(log=LOG) as chat:
        assert chat.ask(question="How many errors?").outputs.answer == 100
        assert chat.ask(question="Of the disk?").outputs.answer == 50
        assert {variable.name: variable.made for variable in chat.variables} == {"re": 1, "is_error": 1, "hits": 1}


def test_the_model_is_told_what_it_has_and_what_it_answered(asked):
    one = asked(["import re\nhits = [1, 2]\nk = len(log)\nSUBMIT(answer=17)", "SUBMIT(answer=k)"])
    with one.predict.session(log=LOG) as chat:
        chat.ask(question="How many errors?")
        chat.ask(question="And characters?")
    first, second = one.prompts()
    assert "Before this question" not in first
    assert "1. question: How many errors?\n   answer: answer = 17" in second
    assert "- hits (list, 2 items; made in question 1): [1, 2]" in second
    assert "Imported or defined already: re" in second


def test_evidence_reaches_back_to_the_cells_of_earlier_questions(asked):
    cells = [
        "n = len(log)\nk = 17\nanswer = llm_query(log)\nSUBMIT(answer=n)",
        "SUBMIT(answer=n * 2)",
        "SUBMIT(answer=k)",
    ]
    one = asked([*cells, "SUBMIT(total=n / 2)"], sub={"*": "31"})
    with one.predict.session(log=LOG) as chat:
        chat.ask(question="How many characters?")
        (doubled,) = chat.ask(question="And twice?").evidence
        assert (doubled.kind, doubled.inputs) == ("computed", ("log",))
        assert [(step.iteration, step.line) for step in doubled.chain] == [(0, 1), (1, 1)]
        (written,) = chat.ask(question="And seventeen?").evidence
        assert written.kind == "typed"
        name = chat.id
    with one.predict.reopen(name) as chat:  # its own signature has no `log`
        (half,) = chat.ask("question -> total: float", question="And half?").evidence
        assert (half.kind, half.inputs) == ("computed", ("log",))


def test_a_question_of_several_sentences_is_in_the_prompt_and_need_not_be_read(asked):
    question = "How many errors are there? " + "Count only those of disks, and mind that lines are repeated. " * 20
    longer = "Again. " * 2_000
    one = asked(["SUBMIT(answer=len(log))", "SUBMIT(answer=5)", "print(question)\nSUBMIT(answer=len(log))"])
    with one.predict.session(log="x" * 20) as chat:
        assert chat.ask(question=question).outputs.answer == 20
        assert chat.ask(question=longer).iterations == 2
    first, second, _ = one.prompts()
    assert question in first
    assert longer not in second
    assert "No code of yours has read `question` yet" in one.prompts()[2]


def test_a_question_may_have_its_own_signature(asked):
    one = asked(
        ["n = 4\nSUBMIT(answer=n)", "SUBMIT(total=n / 8)", "SUBMIT(names=['a'])", "SUBMIT(answer=n + len(log))"]
    )
    with one.predict.session(log="x" * 20) as chat:
        chat.ask(question="1")
        assert chat.ask("... -> total: float", question="2").outputs.total == 0.5
        assert chat.ask("question -> names: list[str]", question="3").outputs.names == ["a"]
        assert chat.ask(question="4").outputs.answer == 24


def test_each_question_has_a_budget_an_ending_and_a_run_of_its_own(asked):
    one = asked(
        ["n = 1", "n = 2", "SUBMIT(answer=n + len(log))"],
        extraction=['{"answer": 2}'],
        trigger=FallbackTrigger(max_iterations=2),
    )
    with one.predict.session(log="x" * 20) as chat:
        first, second = chat.ask(question="1"), chat.ask(question="2")
        records = chat.questions
    assert (first.status, second.status) == ("extracted", "submitted")
    assert second.outputs.answer == 22
    assert [record.run_id for record in records] == [first.run_id, second.run_id]
    assert first.run_id != second.run_id
    assert (first.iterations, second.iterations) == (2, 1)


def test_a_total_budget_is_for_all_questions(asked):
    one = asked(["llm_query('a')\nSUBMIT(answer=len(log))", "x = llm_query('b')\nSUBMIT(answer=2)"])
    settings = rlm.SessionSettings(total=FallbackTrigger(max_llm_calls=1, max_iterations=99, max_duration=1e6))
    with one.predict.session(settings, log="x") as chat:
        assert chat.ask(question="1").outputs.answer == 1
        result = chat.ask(question="2")
        assert result.status == "failed"
        assert "the budget of the session is used up" in result.reason
        assert chat.usage.llm_calls == 1
    assert len(one.prompts()) == 1


def test_inputs_are_added_and_replaced_between_questions(asked):
    one = asked(
        ["a = len(log)\nSUBMIT(answer=a)", "SUBMIT(answer=len(log) + a)", "SUBMIT(answer=len(more['k']) + len(log))"]
    )
    with one.predict.session(log="x" * 1000) as chat:
        assert chat.ask(question="1").outputs.answer == 1000
        chat.set(log="y" * 500)
        assert chat.ask(question="2").outputs.answer == 1500
        chat.set(more={"k": [1, 2, 3]})
        assert chat.ask(question="3").outputs.answer == 503
    assert "- more (dict, 1 items)" in one.prompts()[2]


def test_code_cannot_rebind_an_input_that_was_replaced(asked):
    one = asked(["SUBMIT(answer=len(log))", "log = 'mine'", "SUBMIT(answer=len(log))"])
    with one.predict.session(log="x" * 10) as chat:
        chat.ask(question="1")
        chat.set(log="y" * 20)
        assert chat.ask(question="2").outputs.answer == 20


def test_typed_inputs_keep_their_types_when_the_kernel_is_rebuilt(asked):
    cells = ["year = day.year\nSUBMIT(answer=year)", "SUBMIT(answer=day.year + year)"]
    one = asked(cells, "day: datetime.date, question: str -> answer: int")
    with one.predict.session(day=datetime.date(2026, 1, 2)) as chat:
        chat.ask(question="1")
    with one.predict.reopen(chat.id) as again:
        assert again.ask(question="2").outputs.answer == 4052
        assert again.inputs == {"day": datetime.date(2026, 1, 2)}


def test_inputs_are_checked_before_anything_is_started(asked):
    one = asked(["SUBMIT(answer=1)"])
    with pytest.raises(InvalidInputs, match="no such inputs"):
        one.predict.session(lgo="x")
    with pytest.raises(InvalidInputs, match="log"):
        one.predict.session(log=5)
    with one.predict.session(log="x") as chat:
        with pytest.raises(InvalidInputs, match="question"):
            chat.ask()
        with pytest.raises(InvalidInputs, match="a name of the REPL"):
            chat.set(SUBMIT=1)
        assert chat.questions == []


def test_plans_and_sessions_do_not_go_together(asked):
    one = asked([], plans=2)
    with pytest.raises(ValueError, match="a session has no plans"):
        one.predict.session(log="x")


async def test_questions_are_answered_one_after_another(asked):
    def work(answer):
        return (
            f"import time\nbegan = time.monotonic()\ntime.sleep(0.2)\nended = time.monotonic()\nSUBMIT(answer={answer})"
        )

    one = asked([work(n) for n in range(3)] + ["SUBMIT(answer=len(log))"])
    async with one.predict.session(log="x" * 7) as chat:
        results = await asyncio.gather(*(chat.aask(question=str(n)) for n in range(3)))
        assert [result.outputs.answer for result in results] == [0, 1, 2]
        spans = [(record.started, record.ended) for record in chat.questions]
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_a_branch_goes_its_own_way(asked):
    one = asked(
        ["calls = [llm_query('a')]\nSUBMIT(answer=len(calls) + len(log))"]
        + [f"calls.append({n})\nSUBMIT(answer=len(calls))" for n in (1, 2, 3)]
    )
    with one.predict.session(log="x") as chat:
        chat.ask(question="1")
        with chat.branch() as left, chat.branch() as right:
            assert left.ask(question="2").outputs.answer == 2
            assert right.ask(question="2").outputs.answer == 2
            assert [one.number for one in right.questions] == [1, 2]
        assert len(chat.questions) == 1
        assert chat.ask(question="2").outputs.answer == 2
    assert len(one.sub._engine_spec.requests) == 1  # the branches had its answer from the record


def test_undo_takes_back_variables_and_answer(asked):
    one = asked(["n = [1]\nSUBMIT(answer=len(log))", "n.append(2)\nSUBMIT(answer=2)", "SUBMIT(answer=len(n))"])
    with one.predict.session(log="x") as chat:
        chat.ask(question="1")
        chat.ask(question="2")
        assert chat.undo().number == 2
        assert chat.ask(question="3").outputs.answer == 1
        assert chat.usage.model_calls == 3
    assert "2. question: 2" not in one.prompts()[2]


def test_unused_variables_are_dropped(asked):
    last = "SUBMIT(answer=int('big' in globals()))"
    one = asked(["big = [0] * 1000\nn = 1\nSUBMIT(answer=len(log))", *["SUBMIT(answer=n)"] * 3, last], policy="off")
    with one.predict.session(log="x") as chat:
        for number in range(4):
            chat.ask(question=str(number))
        assert [variable.name for variable in chat.unused()] == ["big"]
        chat.drop("big")
        assert [variable.name for variable in chat.variables] == ["n"]
        with pytest.raises(SessionError, match="no variable big"):
            chat.drop("big")
        assert chat.ask(question="5").outputs.answer == 0


def test_a_session_that_is_idle_gives_its_kernel_back(asked):
    one = asked(["n = [1, 2]\nSUBMIT(answer=len(log))", "SUBMIT(answer=len(n))"])
    with one.predict.session(rlm.SessionSettings(idle_seconds=0.05), log="x") as chat:
        chat.ask(question="1")
        for _ in range(200):
            if not chat.has_kernel:
                break
            time.sleep(0.02)
        assert not chat.has_kernel
        assert chat.ask(question="2").outputs.answer == 2
        assert chat.rebuilt.cells == 1


def test_a_cancelled_question_leaves_the_session(asked):
    one = asked(["n = 5\nprint(n)", "import time\ntime.sleep(60)", "SUBMIT(answer=n + len(log))"])
    with one.predict.session(log="x") as chat:
        run = chat.start(question="1")
        for event in run:
            if event.kind == "cell_started" and event.iteration == 2:
                run.cancel()
        assert run.result().status == "failed"
        assert chat.unfinished is not None
        assert chat.ask(question="2").outputs.answer == 6
        assert [record.ending for record in chat.questions] == ["interrupted", "submitted"]


def test_a_session_without_a_record_is_gone_with_its_process(asked, tmp_path):
    one = asked(["n = 2\nSUBMIT(answer=len(log))", "SUBMIT(answer=n)"])
    with one.predict.session(rlm.SessionSettings(record=False), log="x") as chat:
        chat.ask(question="1")
        with chat.branch() as branch:
            assert branch.ask(question="2").outputs.answer == 2
    assert not (tmp_path / "sessions").exists()


async def test_ask_in_the_loop_of_the_session_says_what_to_use(asked):
    one = asked(["SUBMIT(answer=len(log))"])
    async with one.predict.session(log="x") as chat:
        with pytest.raises(SessionError, match="aask"):
            chat.ask(question="1")
        assert (await chat.aask(question="1")).outputs.answer == 1
