"""The pictures in docs/viewer.md: `make screenshots`; with `--all FOLDER`, every page.

Records runs on scripted models, opens them in chromium, and takes the pictures. Needs chromium, playwright and the
extra `viewer`; run it from the repository.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
sys.path.insert(0, str(DOCS.parent))

import sandbox  # noqa: E402
from rlm.evals.log import LogEntry  # noqa: E402
from rlm.evals.log_writer import LogWriter  # noqa: E402
from rlm.events import Event  # noqa: E402
from rlm.models.scripted import scripted_lm  # noqa: E402
from rlm.plans import Operator, Plan, PlanSettings, Thresholds  # noqa: E402
from rlm.plans.runner import PlanLoop  # noqa: E402
from rlm.repl.config import RunConfig  # noqa: E402
from rlm.signatures import Signature  # noqa: E402
from rlm.traces import TraceWriter, load  # noqa: E402
from tests.support.events import make_event  # noqa: E402
from tests.support.replies import cell  # noqa: E402
from tests.support.viewer_runs import ended, iteration, record_count, record_lease, started, tell  # noqa: E402
from tests.support.viewer_server import serve  # noqa: E402

WIDE, NARROW = {"width": 1400, "height": 900}, {"width": 390, "height": 844}
LIVE = "f" * 12


def record(home: Path) -> dict[str, str]:
    """Record runs of every kind; return the ids of those that have pictures."""
    with sandbox.Pool(2) as pool:
        lease = record_lease(home, pool)
        other = record_lease(home, pool, rent=987654)
        for number in (10, 20):
            record_count(home, pool, number)
        plans = _record_plans(home, pool)
    batch = list(_batch(home / "answers.jsonl"))
    tell(home, batch)
    tell(home, list(_session()))
    _evaluation(home, lease, other)
    return {"lease": lease, "other": other, "plans": plans, "waiting": batch[0].run_id}


def _record_plans(home: Path, pool: sandbox.Pool) -> str:
    replies = {"guess": cell("SUBMIT(answer=1)", "I guess."), "count": cell("SUBMIT(answer=2)", "I count.")}
    settings = PlanSettings(
        (Plan("guess it"), Plan("count them")),
        count=2,
        thresholds=Thresholds(invariants=("answer == 7",)),
        operator=Operator(default="approve"),
        logs=home / "plans",
    )
    with TraceWriter(home) as writer:
        config = RunConfig(Signature.of("question -> answer: int"), scripted_lm(replies), pool=pool, observe=writer)
        return asyncio.run(PlanLoop(config, {"question": "How many?"}, settings).run()).run_id


def _batch(results: Path) -> Iterator[Event]:
    """Twelve runs of a batch; the first one waits for its provider."""
    for number in range(12):
        run, begin = f"{number:x}" * 12, time.time() - 86_400 * (number % 4) - 600
        start = started(run, begin, name="Story", model=f"openai/gpt-5{'-mini' if number % 3 else ''}", doc="text")
        data = {**start.data, "task": {"path": "tasks/story.yaml", "batch": str(results), "item": f"story-{number}"}}
        yield make_event("run_started", run, data, begin)
        yield from iteration(run, 1, begin + 1, code="parts = doc.split()", output="12 parts", calls=3)
        waits = {"id": 7, "role": "main", "model": "openai/gpt-5", "reason": "429 Too Many Requests", "seconds": 8.0}
        asked = {"id": 7, "role": "main", "iteration": 2, "call": None, "kept": 1, "model": "openai/gpt-5"}
        yield make_event("iteration_started", run, {"iteration": 2}, begin + 2)
        yield make_event("model_asked", run, {**asked, "system": None, "turns": [["user", "12 parts"]]}, begin + 2)
        yield make_event("model_waiting", run, waits, begin + 2.1)
        yield make_event("model_waiting", run, {**waits, "seconds": 16.0}, begin + 10.2)
        used = {"tokens_in": 900, "tokens_out": 120, "cost_usd": 0.002 * (1 + number), "seconds": 26.0}
        yield make_event(
            "model_answered", run, {"id": 7, "role": "main", "iteration": 2, "text": "x", **used}, begin + 28
        )
        yield from list(iteration(run, 2, begin + 28.1, code="SUBMIT(answer='a story')", output=""))[3:]
        yield ended(run, begin + 29 + number, {"answer": f"story {number}"})


def _session() -> Iterator[Event]:
    """Three questions of one session."""
    for question in range(1, 4):
        run, begin = f"{question}a" * 6, time.time() - 3_600 + 60 * question
        start = started(run, begin, name="AskTheArchive", model="openai/gpt-5-mini", doc="text")
        task = {"session": "5e55105e55ab", "question": question}
        yield make_event("run_started", run, {**start.data, "task": task}, begin)
        yield from iteration(run, 1, begin + 1, code="hits = find(archive)", output="3 letters", calls=2)
        yield ended(run, begin + 5, {"answer": f"letter {question}"})


def _evaluation(home: Path, first: str, second: str) -> None:
    header: dict[str, Any] = {"format": 1, "suites": [{"name": "lease", "path": None}], "lengths": [4_000, 64_000]}
    header |= {"seed": 7, "epochs": 1, "total": 24, "models": {"main": "openai/gpt-5-mini"}, "configuration": {}}
    header |= {"baseline": None, "count": 24, "versions": {}}
    about: dict[str, Any] = {"suite": "lease", "epoch": 1, "seconds": 3.0, "expected": {"rent": 4001}}
    about["usage"] = {"tokens_in": 1_000, "tokens_out": 200, "cost_usd": 0.02}
    with LogWriter(home / "evals" / "lease-mini", header) as writer:
        for number in range(24):
            right = number % 3 != 1
            confidence = (0.95, 0.45, 0.8, 0.7, 0.6, 0.9, 1.0, 0.3)[number % 8]
            run = (first, second)[number] if number < 2 else None
            outputs = {"rent": 4001 if right else 987654}
            writer.append(
                LogEntry(
                    **about,
                    sample_id=f"lease-{number}",
                    length=(4_000, 64_000)[number % 2],
                    ending="Submitted" if confidence == 1.0 else "Extracted",
                    confidence=confidence,
                    outputs=outputs,
                    scores={"rent": float(right)},
                    score=float(right),
                    run_id=run,
                )
            )


@contextlib.asynccontextmanager
async def browser() -> AsyncIterator[Any]:
    """A headless chromium."""
    from playwright.async_api import async_playwright

    path = os.environ.get("RLM_TEST_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        await chromium.close()


async def picture(chromium: Any, address: str, target: Path, **options: Any) -> None:
    """Take a picture of a page once its texts are there."""
    size = options.get("size", WIDE)
    context = await chromium.new_context(viewport=size, color_scheme=options.get("scheme", "light"), locale="en-GB")
    page = await context.new_page()
    await page.goto(address)
    await page.wait_for_selector(options.get("ready", ".pane .detail, .window-row, .pairs, .failed-page"))
    for selector in options.get("click", ()):
        await page.click(selector)
    await page.wait_for_timeout(400)
    await page.screenshot(path=target, full_page=options.get("full", False))
    await context.close()


async def take(address: str, ids: dict[str, str], folder: Path | None) -> None:
    """Take the pictures of the documentation, or all of them into a folder."""
    lease = f"{address}#/run/{ids['lease']}"
    async with browser() as chromium:
        if folder is None:
            await picture(chromium, lease, DOCS / "viewer-run.png")
            mark = "tr[data-field=payer] a.evidence.history"
            await picture(chromium, lease, DOCS / "viewer-evidence.png", click=[mark], ready="a.evidence.history")
            await picture(chromium, f"{address}#/groups/task", DOCS / "viewer-groups.png")
            return
        folder.mkdir(parents=True, exist_ok=True)
        pages = {
            "runs": "#/",
            "grouped": "#/groups/model",
            "batches": "#/batches",
            "evals": "#/evals",
            "eval": "#/eval/lease-mini",
            "plans": "#/plans",
            "sessions": "#/sessions",
            "lease": f"#/run/{ids['lease']}",
            "lease-2": f"#/run/{ids['lease']}/2",
            "lease-attempt": f"#/run/{ids['lease']}/attempt-1",
            "planned": f"#/run/{ids['plans']}",
            "waiting": f"#/run/{ids['waiting']}/2",
            "compare": f"#/compare/{ids['lease']}/{ids['other']}",
        }
        for name, place in pages.items():
            for look, options in (
                ("wide", {}),
                ("dark", {"scheme": "dark"}),
                ("narrow", {"size": NARROW, "full": True}),
            ):
                await picture(chromium, address + place, folder / f"{name}-{look}.png", **options)


def main() -> None:
    """Record and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="every page, wide, narrow and dark")
    folder = parser.parse_args().all
    with tempfile.TemporaryDirectory() as home:
        os.environ["RLM_HOME"] = home
        ids = record(Path(home))
        with contextlib.contextmanager(serve)(Path(home)) as address:
            asyncio.run(take(address, ids, folder))
        print(f"{len(load(Path(home)))} runs; pictures in {folder or DOCS}")


if __name__ == "__main__":
    main()
