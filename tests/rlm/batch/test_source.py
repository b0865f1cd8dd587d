"""What a batch is made of: rows and lines become items, with types, names, keys, and errors that say where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlm.batch.source import Source
from rlm.tasks import TaskError
from tests.support import batches

TYPED = """\
signature: "n: int, word: str, tags: list[str], sure: bool, limit: int | None -> answer: str"
models: {scripted: replies.yaml}
"""


def _folder(tmp_path: Path, task: str = batches.TASK, **files: str) -> Path:
    batches.write_folder(tmp_path, 2, task=task)
    for name, text in files.items():
        (tmp_path / name.replace("__", ".")).write_text(text)
    return tmp_path


def _problems(source: Source) -> list[str]:
    with pytest.raises(TaskError) as caught:
        list(source.checked())
    return [str(one) for one in caught.value.problems]


def _digests(source: Source) -> dict[str, str]:
    return {item.name: digest for item, _, digest in source.checked()}


def test_cells_are_what_the_signature_says(tmp_path: Path) -> None:
    rows = 'n,word,tags,sure,limit\n5,5,"[""a"", ""b""]",TRUE,\n-1,"a, ""b""\nc",[],false,9\n'
    folder = _folder(tmp_path, TYPED, rows__csv=rows)
    first, second = Source([folder / "task.yaml"], folder / "rows.csv").read()
    assert first.inputs == {"n": 5, "word": "5", "tags": ["a", "b"], "sure": True, "limit": None}
    assert second.inputs == {"n": -1, "word": 'a, "b"\nc', "tags": [], "sure": False, "limit": 9}


def test_errors_name_row_and_column_and_come_together(tmp_path: Path) -> None:
    folder = _folder(tmp_path, rows__csv="n,word\n1,a\nx,b\ny,c\n")
    problems = _problems(Source([folder / "task.yaml"], folder / "rows.csv"))
    assert problems == [
        f"{folder}/rows.csv:3 (row 2): column 'n': expected int, got \"x\" (a string)",
        f"{folder}/rows.csv:4 (row 3): column 'n': expected int, got \"y\" (a string)",
    ]


def test_a_thousand_bad_rows_are_not_all_told(tmp_path: Path) -> None:
    folder = _folder(tmp_path, rows__csv="n,word\n" + "x,a\n" * 1000)
    problems = _problems(Source([folder / "task.yaml"], folder / "rows.csv"))
    assert 20 <= len(problems) <= 22
    assert "there may be more problems" in problems[-1]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("", "is empty"),
        ("n,n\n1,2\n", "two columns 'n'"),
        ("n,\n1,2\n", "column 2 has no name"),
        ("n;word\n1;a\n", "cells must be separated by commas"),
        ("n,word\n1\n", "rows.csv:2 (row 1): has 1 cells, and the header 2"),
        ('n,word\n1,"a\n', "is not CSV"),
    ],
)
def test_a_file_that_is_no_table_is_refused_where_it_is_wrong(tmp_path: Path, rows: str, said: str) -> None:
    folder = _folder(tmp_path, rows__csv=rows)
    (problem,) = _problems(Source([folder / "task.yaml"], folder / "rows.csv"))
    assert said in problem


def test_rows_have_numbers_unless_a_column_names_them(tmp_path: Path) -> None:
    folder = _folder(tmp_path, a__csv="n,word\n1,a\n2,b\n", b__csv="id,n,word\nx,1,a\n,2,b\n0,3,c\n")
    assert [one.name for one in Source([folder / "task.yaml"], folder / "a.csv").read()] == ["row 1", "row 2"]
    assert [one.name for one in Source([folder / "task.yaml"], folder / "b.csv").read()] == ["x", "row 2", "0"]


def test_columns_that_are_no_inputs_can_be_passed_over(tmp_path: Path) -> None:
    folder = _folder(tmp_path, rows__csv="n,word,when\n1,a,today\n")
    ((item, _, _),) = Source([folder / "task.yaml"], folder / "rows.csv", skip=["when"]).checked()
    assert item.inputs == {"n": 1, "word": "a"}


def test_a_column_can_name_files_that_are_read_and_count_by_what_is_in_them(tmp_path: Path) -> None:
    folder = _folder(tmp_path, rows__csv="n,word:file\n1,a.txt\n", a__txt="one")
    source = Source([folder / "task.yaml"], folder / "rows.csv")
    before = _digests(source)
    (folder / "a.txt").write_text("two")
    assert _digests(source) != before
    (folder / "a.txt").unlink()
    (problem,) = _problems(source)
    assert "rows.csv:2 (row 1): word: " in problem
    assert "a.txt cannot be read" in problem


def test_rows_of_jsonl_are_typed_already_and_mappings_mean_themselves(tmp_path: Path) -> None:
    task = TYPED.replace("n: int", "n: dict[str, str]")
    row = {"n": {"value": {"file": "x"}}, "word": "w", "tags": [], "sure": True, "limit": None, "id": 7}
    folder = _folder(tmp_path, task, rows__jsonl=json.dumps(row) + "\n\n")
    source = Source([folder / "task.yaml"], folder / "rows.jsonl")
    ((item, _, _),) = source.checked()
    assert item.name == "7"
    assert source._binder.bind(item).inputs["n"] == {"file": "x"}
    (folder / "rows.jsonl").write_text(json.dumps({**row, "sure": "yes"}) + "\n[]\n")
    with pytest.raises(TaskError, match=r"rows.jsonl:2: is no JSON object"):
        list(source.checked())


def test_lines_of_tasks_are_tasks_or_name_files(tmp_path: Path) -> None:
    whole = {"signature": "n: int -> twice: int", "models": {"scripted": "replies.yaml"}, "inputs": {"n": 3}}
    lines = [
        whole,
        {"id": "b", "task": "task.yaml", "inputs": {"n": 1, "word": "x"}},
        {"id": None, "task": whole, "inputs": {"n": 4}},
    ]
    folder = _folder(tmp_path, tasks__jsonl="".join(json.dumps(one) + "\n" for one in lines))
    source = Source([folder / "tasks.jsonl"])
    items = [item for item, _, _ in source.checked()]
    assert [one.name for one in items] == ["line 1", "b", "line 3"]
    assert [source._binder.bind(one).inputs for one in items] == [{"n": 3}, {"n": 1, "word": "x"}, {"n": 4}]


def test_a_bad_line_of_tasks_is_named(tmp_path: Path) -> None:
    folder = _folder(tmp_path, tasks__jsonl='{"task": "task.yaml", "input": {}}\n')
    (problem,) = _problems(Source([folder / "tasks.jsonl"]))
    assert problem.startswith(f"{folder}/tasks.jsonl:1: is neither ")
    (folder / "tasks.jsonl").write_text('{"task": "no.yaml"}\n')
    (problem,) = _problems(Source([folder / "tasks.jsonl"]))
    assert problem.startswith(f"{folder}/tasks.jsonl:1: names a task that cannot be used: ")
    assert "no.yaml: cannot be read" in problem
    (folder / "tasks.jsonl").write_text('[1]\n\n{"task": \n{"task": "no.yaml"}\n{"task": 5}\n')
    problems = _problems(Source([folder / "tasks.jsonl"]))
    assert [one.removeprefix(f"{folder}/tasks.jsonl:")[:2] for one in problems] == ["1:", "3:", "4:", "5:"]
    assert problems[1] == f"{folder}/tasks.jsonl:3: is not JSON: Expecting value, at character 10"


def test_all_rows_that_cannot_be_read_are_told_together(tmp_path: Path) -> None:
    folder = _folder(tmp_path, rows__jsonl='{"n": 1}\n{\n7\n', rows__csv="n,word\n1\n2,b\n3\nx,c\n")
    said = _problems(Source([folder / "task.yaml"], folder / "rows.jsonl"))
    assert [one.removeprefix(f"{folder}/rows.jsonl:")[:2] for one in said] == ["1:", "2:", "3:"]
    said = _problems(Source([folder / "task.yaml"], folder / "rows.csv"))
    assert [one.removeprefix(f"{folder}/rows.csv:")[:9] for one in said] == ["2 (row 1)", "4 (row 3)", "5 (row 4)"]


def test_a_column_to_pass_over_that_is_not_there_is_said(tmp_path: Path) -> None:
    folder = _folder(tmp_path, rows__csv="n,word,note\n1,a,b\n")
    (problem,) = _problems(Source([folder / "task.yaml"], folder / "rows.csv", skip=["nte"]))
    assert problem == f"--skip: {folder}/rows.csv has no column 'nte'; did you mean note?"


def test_task_files_are_items_with_their_own_inputs(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    for n in (1, 2):
        (folder / f"{n}.yaml").write_text(batches.TASK + f"inputs: {{n: {n}, word: w}}\n")
    source = Source([folder / "1.yaml", folder / "2.yaml"])
    assert list(_digests(source)) == [str(folder / "1.yaml"), str(folder / "2.yaml")]
    assert len(set(_digests(source).values())) == 2


def test_inputs_of_the_task_file_hold_for_rows_that_do_not_have_them(tmp_path: Path) -> None:
    folder = _folder(tmp_path, batches.TASK + "inputs: {n: 5, word: {file: w.txt}}\n", w__txt="a")
    (folder / "rows.csv").write_text("n\n1\n2\n")
    source = Source([folder / "task.yaml"], folder / "rows.csv")
    items = [item for item, _, _ in source.checked()]
    assert [source._binder.bind(one).inputs for one in items] == [{"n": 1, "word": "a"}, {"n": 2, "word": "a"}]


@pytest.mark.parametrize("changed", ["task.yaml", "replies.yaml", "rows.csv"])
def test_a_key_changes_with_everything_that_the_answer_depends_on(tmp_path: Path, changed: str) -> None:
    folder = _folder(tmp_path)
    before = _digests(Source([folder / "task.yaml"], folder / "rows.csv"))
    text = (folder / changed).read_text()
    (folder / changed).write_text(
        {
            "task.yaml": text + "instructions: Be quick.\n",
            "replies.yaml": text.replace("2 *", "3 *"),
            "rows.csv": text.replace("word 1", "other"),
        }[changed]
    )
    after = _digests(Source([folder / "task.yaml"], folder / "rows.csv"))
    same = [name for name in before if before[name] == after[name]]
    assert same == (["row 2"] if changed == "rows.csv" else [])


def test_a_key_does_not_change_with_comments_or_with_other_rows(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    before = _digests(Source([folder / "task.yaml"], folder / "rows.csv"))
    (folder / "task.yaml").write_text("# a comment\n" + batches.TASK)
    (folder / "rows.csv").write_text("word,n\nnew,0\nword 1,1\nword 2,2\n")
    after = _digests(Source([folder / "task.yaml"], folder / "rows.csv"))
    assert [after["row 2"], after["row 3"]] == list(before.values())


def test_a_key_changes_with_models_and_budget_and_not_with_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import rlm
    from rlm.batch.task_binding import TaskBinder

    folder = _folder(tmp_path)
    made = [_digests(Source([folder / "task.yaml"], folder / "rows.csv"))["row 1"]]
    for binder in (TaskBinder(budget={"max_iterations": 7}), TaskBinder(models={"sub": "openai/gpt-5-mini"})):
        made.append(_digests(Source([folder / "task.yaml"], folder / "rows.csv", binder=binder))["row 1"])
    assert len(set(made)) == 3
    monkeypatch.setattr(rlm, "__version__", "99.0")
    assert _digests(Source([folder / "task.yaml"], folder / "rows.csv"))["row 1"] == made[0]


def test_the_code_of_tools_is_part_of_the_key(tmp_path: Path) -> None:
    folder = _folder(tmp_path, batches.TASK + "tools: [kit:look]\n", kit__py="def look() -> int:\n    return 1\n")
    before = _digests(Source([folder / "task.yaml"], folder / "rows.csv"))
    (folder / "kit.py").write_text("def look() -> int:\n    return 2\n")
    assert set(before.values()).isdisjoint(_digests(Source([folder / "task.yaml"], folder / "rows.csv")).values())


def test_what_cannot_be_a_batch_is_said(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    with pytest.raises(TaskError, match="neither a task file"):
        Source([folder / "rows.csv"])
    with pytest.raises(TaskError, match="exactly one"):
        Source([folder / "task.yaml", folder / "task.yaml"], folder / "rows.csv")


def test_a_module_that_a_tool_imports_from_beside_the_task_counts(tmp_path: Path) -> None:
    folder = _folder(tmp_path, batches.TASK + "tools: [counting_tool:g]\n")
    body = '    """Add."""\n    from counting_kit.deep import f\n    return f(x)\n'
    (folder / "counting_tool.py").write_text(f"import json\ndef g(x: str) -> str:\n{body}")
    (folder / "counting_kit").mkdir()
    (folder / "counting_kit" / "__init__.py").write_text("")
    (folder / "counting_kit" / "deep.py").write_text("from . import deeper\ndef f(x): return deeper.h(x)\n")
    (folder / "counting_kit" / "deeper.py").write_text("def h(x): return x\n")
    (folder / "unused.py").write_text("V = 1\n")

    def digests() -> dict[str, str]:
        return _digests(Source([folder / "task.yaml"], folder / "rows.csv"))

    seen = [digests()]
    (folder / "unused.py").write_text("V = 2\n")
    assert digests() == seen[0]
    for name in ("deeper.py", "deep.py", "__init__.py"):
        file = folder / "counting_kit" / name
        file.write_text(file.read_text() + "# changed\n")
        seen.append(digests())
    assert len({one["row 1"] for one in seen}) == 4
