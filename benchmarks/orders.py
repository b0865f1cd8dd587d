"""The worker's end of the JSON lines: one order in, one answer out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any


def serve(obey: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Take orders until stdin ends; an order that fails is answered with the error."""
    # Contenders may print: the answers go out on a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            answer = obey(json.loads(line))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
