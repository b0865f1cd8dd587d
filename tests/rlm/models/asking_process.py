"""A process that asks a server many questions at once, at the pace of others: prints how each of them ended."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import dspy

from rlm.models.client import ModelError, ask
from rlm.models.policy import Traffic, use


async def main(url: str, count: int, traffic: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    use(Traffic(**traffic))
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


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(main(**given))), flush=True)
