"""Plans on generated tasks: how many are answered correctly, and at what cost, next to dspy's BestOfN and Refine.

    python benchmarks/plans.py --tasks 100

Every task asks for a number. The model is scripted and seeded: an attempt at a task is right with the probability of
its approach (`--right`, one for each plan of the file, then `--renewed` for plans that are made after a rejection).
With probability `--stuck` an approach that was tried on a task before comes out as it did then, which is what asking
the same again is like. A check accepts every right answer and one wrong answer in four: `answer % 4`. All methods have
the same model, the same check and the same number of model calls at most; a plan runs in the real sandbox.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import hashlib
import io
import json
import logging
import os
import random
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import sandbox
from rlm.models.scripted import AsyncScriptedEngine, ScriptedEngine
from rlm.plans import FallbackConfig, Plan, PlanSettings, Scores, Thresholds
from rlm.plans.runner import PlanLoop
from rlm.repl.config import RunConfig
from rlm.results import Failed
from rlm.signatures import Signature

APPROACHES = ("add the numbers up one by one", "guess from the size of it", "ask a smaller model about each part")
RENEWED = ("sort everything first", "split it in two halves", "work backwards from the end")


@dataclasses.dataclass(frozen=True)
class World:
    """The tasks, and how good the model is at them."""

    seed: int
    right: tuple[float, ...]
    renewed: float
    stuck: float

    def truth(self, task: int) -> int:
        return 1000 + self.draw(task, "truth", 0).randrange(9000)

    def answer(self, task: int, approach: str, attempt: int) -> int:
        """What the model answers when it goes about a task in some way for the n-th time."""
        for number in range(attempt, 0, -1):  # stuck: as the time before
            if self.draw(task, f"stuck {approach}", number).random() >= self.stuck:
                break
        else:
            number = 0
        draw = self.draw(task, approach, number)
        chance = self.right[APPROACHES.index(approach)] if approach in APPROACHES else self.renewed
        return self.truth(task) + (0 if draw.random() < chance else draw.randrange(1, 1000))

    def draw(self, task: int, what: str, number: int) -> random.Random:
        text = f"{self.seed}/{task}/{what}/{number}"
        return random.Random(hashlib.sha256(text.encode()).digest())

    def accepts(self, task: int, answer: Any) -> bool:
        """The check: it lets every right answer pass, and one wrong answer in four."""
        return isinstance(answer, int) and answer % 4 == self.truth(task) % 4


class Engine(ScriptedEngine):
    """The model: it knows the task and the approach from its prompt, and is as good at it as the world says."""

    def __init__(self, world: World) -> None:
        super().__init__([])
        self.world = world
        self.attempts: dict[tuple[int, str], int] = {}
        self.calls = self.tokens = 0

    def complete(self, request: Any) -> Any:
        made = super().complete(request)
        self.requests.clear()
        self.tokens += len(str(request.system or "")) // 4 + made.usage.input_tokens + made.usage.output_tokens
        return made

    def _answer(self, asked: str) -> str:
        self.calls += 1
        if "You plan how a task is to be done" in asked:
            plans = [{"name": one, "approach": one, "cost": 0.3, "risk": 0.3, "fit": 0.7} for one in RENEWED]
            return json.dumps(plans)
        if "[[ ## discussion ## ]]" in asked:  # what Refine asks for between attempts
            advice = json.dumps({"self": "Look at it again."})
            return f"[[ ## discussion ## ]]\nIt was wrong.\n\n[[ ## advice ## ]]\n{advice}\n\n[[ ## completed ## ]]"
        task = int(re.findall(r"task number (\d+)", asked)[-1])
        known = [one for one in (*APPROACHES, *RENEWED) if f"> {one}" in asked]
        approach = known[-1] if known else APPROACHES[0]
        attempt = self.attempts.get((task, approach), 0)
        self.attempts[task, approach] = attempt + 1
        answer = self.world.answer(task, approach, attempt)
        if "[[ ## answer ## ]]" in asked:
            return f"[[ ## answer ## ]]\n{answer}\n\n[[ ## completed ## ]]"
        return f"```python\nSUBMIT(answer={answer})\n```"


@dataclasses.dataclass
class Tally:
    """What came of one method."""

    name: str
    limit: int
    right: int = 0
    wrong: int = 0
    none: int = 0
    calls: list[int] = dataclasses.field(default_factory=list)
    tokens: list[int] = dataclasses.field(default_factory=list)
    seconds: list[float] = dataclasses.field(default_factory=list)

    def row(self) -> str:
        whole = self.right + self.wrong + self.none
        shares = " | ".join(f"{100 * count / whole:.0f}%" for count in (self.right, self.wrong, self.none))
        calls, tokens = statistics.mean(self.calls), statistics.mean(self.tokens)
        return (
            f"| {self.name} | {self.limit} | {shares} | {calls:.2f} | {tokens:,.0f} | "
            f"{1000 * statistics.median(self.seconds):.0f} |"
        )


def model(world: World) -> tuple[Any, Engine]:
    import dspy

    engine = Engine(world)
    lm = dspy.LM("scripted/main", engine=engine, async_engine=AsyncScriptedEngine(engine), cache=False, num_retries=0)
    return lm, engine


def count(tally: Tally, world: World, task: int, answer: Any, engine: Engine, before: tuple[int, int, float]) -> None:
    tally.calls.append(engine.calls - before[0])
    tally.tokens.append(engine.tokens - before[1])
    tally.seconds.append(time.perf_counter() - before[2])
    if answer is None:
        tally.none += 1
    elif answer == world.truth(task):
        tally.right += 1
    else:
        tally.wrong += 1


async def with_plans(world: World, tasks: int, tally: Tally, plans: int, rounds: int, check: bool) -> None:
    lm, engine = model(world)
    given = tuple(
        Plan(one, scores=Scores(0.3, 1 - right, right))
        for one, right in zip(APPROACHES[:plans], world.right, strict=False)
    )
    fallback = FallbackConfig(strategy="attempt_regeneration", rounds=rounds) if rounds else FallbackConfig(False)
    with tempfile.TemporaryDirectory() as folder, sandbox.Pool(size=2) as pool:
        driver = RunConfig(Signature.of("question: str -> answer: int"), lm, pool=pool)
        for task in range(tasks):
            accepts = (lambda outputs, task=task: world.accepts(task, outputs.answer)) if check else None
            settings = PlanSettings(
                given,
                count=plans,
                thresholds=Thresholds(function=accepts),
                fallback=fallback,
                logs=Path(folder, str(task)),
            )
            before = engine.calls, engine.tokens, time.perf_counter()
            result = await PlanLoop(driver, {"question": f"task number {task}"}, settings).run()
            answer = None if isinstance(result, Failed) else result.outputs.answer
            count(tally, world, task, answer, engine, before)


def with_dspy(world: World, tasks: int, tally: Tally, kind: str, attempts: int) -> None:
    import dspy

    lm, engine = model(world)
    with dspy.context(lm=lm):
        for task in range(tasks):

            def reward(args: dict[str, Any], prediction: Any, task: int = task) -> float:
                return float(world.accepts(task, prediction.answer))

            program = getattr(dspy, kind)(
                module=dspy.Predict("question: str -> answer: int"), N=attempts, reward_fn=reward, threshold=1.0
            )
            before = engine.calls, engine.tokens, time.perf_counter()
            with contextlib.redirect_stdout(io.StringIO()):
                prediction = program(question=f"task number {task}")
            answer = None if prediction is None else prediction.answer
            count(tally, world, task, answer, engine, before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--right", default="0.5,0.45,0.4")
    parser.add_argument("--renewed", type=float, default=0.45)
    parser.add_argument("--stuck", default="0,0.7")
    options = parser.parse_args()
    os.environ["RLM_TRACE"] = "off"
    import dspy  # noqa: F401  # it sets the level of its own log

    logging.getLogger("dspy").setLevel(logging.ERROR)
    right = tuple(float(one) for one in options.right.split(","))
    for stuck in (float(one) for one in options.stuck.split(",")):
        world = World(options.seed, right, options.renewed, stuck)
        tallies = [
            one := Tally("one plan, no check", 1),
            rejecting := Tally("best of 3 plans, with rejection", 3),
            best3 := Tally("dspy.BestOfN, N=3", 3),
            refine2 := Tally("dspy.Refine, N=2", 3),
            escalating := Tally("3 plans, then escalation to 3 new ones", 7),
            best7 := Tally("dspy.BestOfN, N=7", 7),
            refine4 := Tally("dspy.Refine, N=4", 7),
        ]
        asyncio.run(with_plans(world, options.tasks, one, 1, 0, check=False))
        asyncio.run(with_plans(world, options.tasks, rejecting, 3, 0, check=True))
        with_dspy(world, options.tasks, best3, "BestOfN", 3)
        with_dspy(world, options.tasks, refine2, "Refine", 2)
        asyncio.run(with_plans(world, options.tasks, escalating, 3, 1, check=True))
        with_dspy(world, options.tasks, best7, "BestOfN", 7)
        with_dspy(world, options.tasks, refine4, "Refine", 4)
        print(f"\n{options.tasks} tasks, seed {options.seed}; right {options.right}, renewed {options.renewed}, "
              f"stuck {stuck:g}\n")  # fmt: skip
        print("| method | calls at most | right | wrong | no answer | calls | tokens | ms, median |")
        print("|---|---|---|---|---|---|---|---|")
        for tally in tallies:
            print(tally.row(), flush=True)


if __name__ == "__main__":
    main()
