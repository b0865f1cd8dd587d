"""`%%rlm` cells in IPython: what is sent, what is asked, what comes back, and the model's code as a cell."""

from __future__ import annotations

import pytest

import rlm
from rlm.models.scripted import scripted_lm

shells = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed")


def block(code: str) -> str:
    return f"```python\n{code}\n```"


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.setenv("RLM_HOME", str(tmp_path))
    shell = shells.InteractiveShell()
    shell.history_manager.enabled = False
    shell.run_line_magic("load_ext", "rlm")
    yield shell
    chat = shell.run_line_magic("rlm_session", "")
    if chat is not None:
        chat.close()
    shell.history_manager.end_session()


@pytest.fixture
def scripted(shell):
    """Has the notebook ask a model with these cells."""

    def use(*cells: str):
        shell.user_ns["lm"] = scripted_lm([block(cell) for cell in cells])
        return shell.user_ns["lm"]

    return use


def test_the_variables_that_a_question_names_are_sent_by_value(shell, scripted, capsys):
    lm = scripted("n = len(log)\nlog2 = log.upper()\nSUBMIT(answer=str(n))", "SUBMIT(total=n + sum(prices))")
    shell.user_ns |= {"log": "x" * 1000, "prices": [1, 2], "secret": "hidden " * 1000}
    first = shell.run_cell_magic("rlm", "-m lm", "How long is the log?")
    assert first.outputs.answer == "1000"
    assert capsys.readouterr().out == "sent: log (str, 1,000 characters)\n"
    second = shell.run_cell_magic("rlm", "log, prices -> total: int", "The length and all prices?")
    assert second.outputs.total == 1003
    assert capsys.readouterr().out == "sent: prices (list, 6 bytes); there already: log\n"
    asked = "\n".join(message.text for request in lm._engine_spec.requests for message in request.messages)
    assert "secret" not in asked
    assert shell.user_ns["log"] == "x" * 1000


def test_a_variable_that_has_changed_is_sent_again(shell, scripted, capsys):
    scripted("SUBMIT(answer=str(len(rows)))", "SUBMIT(answer=str(len(rows)))", "SUBMIT(answer=str(len(rows)))")
    shell.user_ns["rows"] = [{"a": 1}]
    assert shell.run_cell_magic("rlm", "-m lm rows", "How many?").outputs.answer == "1"
    shell.user_ns["rows"].append({"a": 2})
    assert shell.run_cell_magic("rlm", "rows", "How many?").outputs.answer == "2"
    assert capsys.readouterr().out.count("sent: rows") == 2
    shell.run_cell_magic("rlm", "rows", "How many?")
    assert capsys.readouterr().out == "there already: rows\n"


def test_a_table_is_sent_as_its_rows(shell, scripted):
    pandas = pytest.importorskip("pandas")
    scripted("SUBMIT(answer=str(sum(row['price'] for row in table)))")
    shell.user_ns["table"] = pandas.DataFrame({"price": [1.5, 2.5]})
    assert shell.run_cell_magic("rlm", "-m lm table", "The sum?").outputs.answer == "4.0"


def test_the_models_code_becomes_a_cell_of_the_notebook(shell, scripted, monkeypatch):
    scripted("n = len('é' + log)", "SUBMIT(answer=str(n))")
    taken: list[str] = []
    monkeypatch.setattr(shell, "set_next_input", lambda text, replace: taken.append(text))
    shell.user_ns["log"] = "abc"
    shell.run_cell_magic("rlm", "-m lm log", "How long?")
    shell.run_line_magic("rlm_cells", "")
    (code,) = taken
    assert shell.run_cell(code).result == {"answer": "4"}


def test_a_predict_of_ones_own_is_asked(shell, scripted):
    scripted("SUBMIT(answer=len(question))")
    shell.user_ns["own"] = rlm.Predict("question: str -> answer: int", lm=shell.user_ns["lm"])
    assert shell.run_cell_magic("rlm", "-p own", "Four").outputs.answer == 4


def test_a_result_is_a_rich_display(shell, scripted):
    scripted("SUBMIT(answer=log[:5])")
    shell.user_ns["log"] = "<b>no markup</b>"
    result = shell.run_cell_magic("rlm", "-m lm log", "How does it begin?")
    assert "&lt;b&gt;no" in shell.display_formatter.format(result)[0]["text/html"]


@pytest.mark.parametrize(
    ("line", "cell", "problem"),
    [
        ("nothing", "?", "no variable nothing"),
        ("1x", "?", "no name of a variable"),
        ("", "  ", "no question"),
        ("-p nobody", "?", "no variable nobody"),
        ("handle", "?", "cannot be sent"),
    ],
)
def test_what_is_wrong_is_said(shell, line, cell, problem):
    shell.user_ns["handle"] = object()
    with pytest.raises(rlm.RlmError, match=problem):
        shell.run_cell_magic("rlm", line, cell)


def test_a_question_that_was_not_asked_has_no_cells(shell):
    with pytest.raises(rlm.RlmError, match="nothing was asked yet"):
        shell.run_line_magic("rlm_cells", "")
