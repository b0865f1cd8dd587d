"""Modes of reading with a simulated model: tokens and time by length, a map's throughput, a log's shape.

    python benchmarks/reading_load.py [--lengths 8000,64000,512000,4000000] [--calls 3000] [--parallel 100]

The model knows the answer to every question that it can read, and takes 0.2 s for a call, and more for what it reads
(10,000 tokens a second) and writes (100 a second). What is measured is what a mode asks it, and how near the map comes
to the ideal: the time of all calls, divided by those that run at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from rlm.models.profile import ModelProfile
from rlm.reading import MapPlan
from rlm.repl.config import RunConfig
from rlm.shapes import describe
from rlm.signatures import Signature

TOPICS = ["billing", "delivery", "quality", "other"]
WORDS = {
    "billing": "my invoice is wrong",
    "delivery": "the parcel is late",
    "quality": "it broke at once",
    "other": "hello",
}
CALL_S, READ_PER_S, WRITTEN_PER_S = 0.2, 10_000, 100
WINDOW = 128_000
CELL = """\
I ask about each part.
```python
parts = chunk(doc, 12_000)
found = llm_batch([f"How many of these messages are about billing?\\n\\n{part}" for part in parts], type=int)
SUBMIT(answer=sum(found))
```"""


class Simulated:
    """An engine that answers after the time that its call takes; calls and tokens are counted."""

    supports_response_schema = True
    supported_params = frozenset({"response_format", "max_tokens", "temperature"})

    def __init__(self) -> None:
        self.calls = self.tokens = 0
        self.busy = 0.0

    async def complete(self, request: Any) -> Any:
        """Return one answer."""
        from dspy.lm15 import Message, Response, Usage

        asked = "\n".join(message.text or "" for message in request.messages)
        text = answer_to(asked)
        read, written = len(asked) // 4, max(1, len(text) // 4)
        if read > WINDOW:
            raise ValueError(f"This model's maximum context length is {WINDOW} tokens; the prompt has {read}")
        seconds = CALL_S + read / READ_PER_S + written / WRITTEN_PER_S
        self.calls, self.tokens, self.busy = self.calls + 1, self.tokens + read + written, self.busy + seconds
        await asyncio.sleep(seconds)
        usage = Usage(input_tokens=read, output_tokens=written)
        return Response(None, request.model, Message.assistant(text), "stop", usage)

    async def aclose(self) -> None:
        """Do nothing."""


def answer_to(asked: str) -> str:
    """Return what a model that makes no mistakes answers."""
    if "Answer for each of these" in asked:
        listed = re.findall(r"^\[(\d+)\] (.*)$", asked, re.MULTILINE)
        return json.dumps({number: topic_of(text) for number, text in listed})
    number = asked.count(WORDS["billing"])
    if "## Required Outputs" in asked:
        return json.dumps({"answer": number})
    if "How many of these messages" in asked:
        return json.dumps({"value": number}) if "value" in asked else str(number)
    return CELL if "SUBMIT" in asked else topic_of(asked)


def topic_of(text: str) -> str:
    return next((topic for topic, words in WORDS.items() if words in text), "other")


def simulated() -> tuple[Any, Simulated]:
    """Return a model and its engine."""
    import dspy

    from rlm.models.scripted import ScriptedEngine

    engine = Simulated()
    lm = dspy.LM("simulated", engine=ScriptedEngine([]), async_engine=engine, cache=False, num_retries=0)
    lm.profile = ModelProfile(engine=engine, context_window=WINDOW)
    return lm, engine


def messages(length: int) -> tuple[str, int]:
    """Return about so many characters of messages, one a line, and how many of them are about billing."""
    lines, size, number = [], 0, 0
    while size < length:
        topic = TOPICS[(number * 7 + number // 3) % len(TOPICS)]
        lines.append(f"message {number:07d}: good day, {WORDS[topic]}, please see to it soon, kind regards")
        size += len(lines[-1]) + 1
        number += 1
    text = "\n".join(lines)
    return text, text.count(WORDS["billing"])


async def run(mode: str, doc: str, parallel: int, size: int | None = None) -> tuple[Any, Simulated, float]:
    """Run the task in a mode. Return the answer, the engine, and the seconds."""
    lm, engine = simulated()
    plan = MapPlan("doc", "What is it about?", TOPICS, "lines", value="billing", parallel=parallel)
    signature = Signature.of("doc: str -> answer: int", instructions="How many messages are about billing?")
    config = RunConfig(signature, lm, mode=mode, map=plan if mode == "map" else None, max_parallel=parallel)
    import dataclasses

    from rlm.budgets import FallbackTrigger

    trigger = FallbackTrigger(max_iterations=3, max_llm_calls=100_000, max_duration=600)
    config = dataclasses.replace(config, trigger=trigger)
    began = time.monotonic()
    result = await config.run({"doc": doc})
    answer = None if result.outputs is None else result.outputs.answer
    return answer, engine, time.monotonic() - began


async def modes(lengths: list[int], parallel: int) -> None:
    table = Table("characters", "mode", "right", "calls", "tokens", "s", title="a count of inferred topics, by mode")
    for length in lengths:
        doc, expected = messages(length)
        for mode in ("direct", "repl", "map"):
            answer, engine, seconds = await run(mode, doc, parallel)
            right = "yes" if answer == expected else f"no: {answer} ({expected})"
            table.add_row(f"{length:,}", mode, right, f"{engine.calls:,}", f"{engine.tokens:,}", f"{seconds:.1f}")
    Console().print(table)


async def throughput(calls: int, parallel: int) -> None:
    doc, expected = messages(calls * 20 * 83)
    answer, engine, seconds = await run("map", doc, parallel)
    ideal = engine.busy / parallel
    print(
        f"map: {engine.calls:,} calls, {parallel} at once: {seconds:.1f} s; ideal {ideal:.1f} s; "
        f"{100 * (seconds / ideal - 1):.1f}% above it; answer {'right' if answer == expected else 'wrong'}"
    )


def shapes(size: int) -> None:
    line = "Dec 10 06:55:{:02d} gate sshd[{}]: Failed password for root from 203.0.113.{} port {} ssh2\n"
    other = "Dec 10 07:{:02d}:46 gate cron[{}]: job {} started on node{}\n"
    block = "".join((line if n % 3 else other).format(n % 60, 1000 + n, n % 250, 3000 + n) for n in range(20_000))
    text = block * (size // len(block))
    wall, cpu = time.monotonic(), time.process_time()
    shape = describe(text)
    cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    exact = all(
        one.count == text.count(part)
        for one, part in zip(shape.lines, ("Failed password", " started on "), strict=False)
    )
    print(f"shape of {len(text):,} characters: {cpu:.2f} s of a processor, {wall:.2f} s; counts exact: {exact}")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--lengths", type=lambda text: [*map(int, text.split(","))], default=[8_000, 64_000, 512_000, 4_000_000]
    )
    parser.add_argument("--calls", type=int, default=3_000)
    parser.add_argument("--parallel", type=int, default=100)
    given = parser.parse_args()
    shapes(100_000_000)
    asyncio.run(modes(given.lengths, given.parallel))
    asyncio.run(throughput(given.calls, given.parallel))


if __name__ == "__main__":
    main()
