"""Columns of a CSV file that are no inputs."""

from __future__ import annotations

import pytest

from rlm.batch.source import Source
from rlm.tasks import TaskError


@pytest.fixture
def files(tmp_path):
    def write(header: str) -> tuple:
        (tmp_path / "task.yaml").write_text('signature: "doc: str -> n: int"\nmodels: openai/gpt-5-mini\n')
        rows = "\n".join(",".join(["x"] * len(header.split(","))) for _ in range(5))
        (tmp_path / "rows.csv").write_text(f"{header}\n{rows}\n")
        return [tmp_path / "task.yaml"], tmp_path / "rows.csv"

    return write


def problems(*source, **options) -> list[str]:
    with pytest.raises(TaskError) as caught:
        list(Source(*source, **options).checked())
    return [str(problem) for problem in caught.value.problems]


def test_an_extra_column_is_one_problem_with_the_option_that_ignores_it(files):
    (problem,) = problems(*files("doc,note"))
    assert "rows.csv:1" in problem
    assert "column 'note' is no input of the signature" in problem
    assert problem.endswith("(to ignore: --skip note)")


def test_several_are_named_together(files):
    (problem,) = problems(*files("doc,by whom,note"))
    assert "columns 'by whom', 'note' are no inputs" in problem
    assert problem.endswith("(to ignore: --skip 'by whom' --skip note)")


def test_a_near_name_is_suggested(files):
    (problem,) = problems(*files("docs"))
    assert "did you mean doc?" in problem


def test_names_files_and_what_is_skipped_are_no_extra_columns(files):
    assert len(list(Source(*files("id,doc")).checked())) == 5
    assert len(list(Source(*files("doc,note"), skip=["note"]).checked())) == 5
