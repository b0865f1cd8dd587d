"""A process that asks a server many questions at once, at the pace of others: prints how each of them ended."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from typing import Any

import dspy

from rlm.models.client import ModelError, ask
from rlm.models.policy import RequestPolicy, use


async def main(url: str, count: int, traffic: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    use(RequestPolicy(**traffic))
    lm = dspy.LM("openai/local", api_base=url, api_key="sk-very-secret-key", cache=False, num_retries=0, **settings)
    print("ready", flush=True)
    sys.stdin.readline()

    async def one(number: int) -> str:
        try:
            answer = await ask(lm, [("user", f"question {number}")])
        except ModelError as error:
            return f"{error.kind}: {error}"
        return "cached" if answer.cached else answer.text

    return await asyncio.gather(*(one(number) for number in range(count)))


def asking(
    url: str, processes: int, count: int, traffic: dict[str, Any], **settings: Any
) -> tuple[float, list[list[str]]]:
    """Several processes that ask at the same time: how long it took, and what each of them got."""
    about = json.dumps({"url": url, "count": count, "traffic": traffic, "settings": settings})
    command = [sys.executable, "-m", "tests.support.model_calls_process", about]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, **pipes) for _ in range(processes)]
    try:
        for one in running:
            assert one.stdout.readline() == "ready\n"
        began = time.monotonic()
        for one in running:
            one.stdin.write("go\n")
            one.stdin.flush()
        said = [json.loads(one.communicate(timeout=60)[0]) for one in running]
        return time.monotonic() - began, said
    finally:
        for one in running:
            one.kill()
            one.wait()
            one.stdin.close()
            one.stdout.close()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(main(**given))), flush=True)
