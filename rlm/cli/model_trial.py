"""A trial of a local model: load it, ask it without and with constraints, and measure both."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, Literal, get_args

from .console import one_line
from .preflight import prepare

_FREE = "What is the capital of France? Answer in one sentence."
_CHOICE = "Which of these is a fruit: hammer, apple, or bicycle? Answer with one word."
_WORDS = Literal["hammer", "apple", "bicycle"]


def try_model(path: Path, backend: str) -> dict[str, Any]:
    """Load a model, ask it, and return answers and measurements as plain values."""
    chosen = prepare(path, backend)
    before, started = _memory(), time.perf_counter()
    from ..models import OutlinesLM

    imported = time.perf_counter()
    lm = OutlinesLM(path, backend=chosen, cache=False)  # type: ignore[arg-type]
    loaded = time.perf_counter()
    free = _ask(lm, _FREE, 40)
    constrained = _ask(lm, _CHOICE, 10, _outlines_constraint=_WORDS)
    after = _memory()
    return {
        "path": str(path),
        "backend": chosen,
        "import_seconds": round(imported - started, 2),
        "load_seconds": round(loaded - imported, 2),
        "memory_mb": round((after - before) / 1e6) if before is not None and after is not None else None,
        "free": free,
        "constrained": {**constrained, "allowed": list(get_args(_WORDS))},
    }


def as_lines(name: str, trial: dict[str, Any]) -> str:
    """Render a trial for people."""
    free, constrained = trial["free"], trial["constrained"]
    memory = f", {trial['memory_mb']:,} MB of memory" if trial["memory_mb"] is not None else ""
    lines = [
        f"{name} on {trial['backend']}: loaded in {trial['load_seconds']:.1f} s{memory}",
        f"free         {one_line(free['answer'], 90)}",
        f"             {_speed(free)}",
        f"constrained  {one_line(constrained['answer'], 90)}   (one of {', '.join(constrained['allowed'])})",
        f"             {_speed(constrained)}",
    ]
    return "\n".join(lines)


def _speed(answer: dict[str, Any]) -> str:
    read, written = answer["tokens_in"], answer["tokens_out"]
    rate = f", {answer['tokens_per_second']:.1f} tokens/s written" if answer["tokens_per_second"] else ""
    return f"{read} tokens read, {written} written in {answer['seconds']:.2f} s{rate}"


def _ask(lm: Any, prompt: str, max_tokens: int, **options: Any) -> dict[str, Any]:
    from dspy.lm15 import Config, Message, Request

    config = Config(max_tokens=max_tokens, temperature=0.0)
    started = time.perf_counter()
    response = lm(Request(model=lm.local.name, messages=(Message.user(prompt),), config=config), **options)
    seconds = time.perf_counter() - started
    usage, details = response.usage, response.provider_data or {}
    decode = details.get("timings", {}).get("decode")
    written = usage.output_tokens or 0
    return {
        "question": prompt,
        "answer": response.message.text or "",
        "tokens_in": usage.input_tokens or 0,
        "tokens_out": written,
        "seconds": round(seconds, 3),
        # A few forced tokens are too little to measure a rate.
        "tokens_per_second": round(written / decode, 1) if decode and written > 5 else None,
    }


def _memory() -> int | None:
    """Return the resident memory of this process in bytes."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
