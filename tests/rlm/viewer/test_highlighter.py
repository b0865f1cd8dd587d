"""The page's highlighter of Python, compared with the REPL of a real run."""

from __future__ import annotations

import asyncio
import re

import sandbox
from rlm.models.scripted import scripted_lm
from rlm.repl.config import RunConfig
from rlm.signatures import Signature
from rlm.viewer.bundle import STATIC


def test_it_knows_the_functions_that_the_repl_offers(pool: sandbox.Pool) -> None:
    script = (STATIC / "lib" / "python_highlighter.js").read_text(encoding="utf-8")
    listed = re.search(r"const REPL_FUNCTIONS = new Set\((.*?)\.split", script, re.DOTALL)
    assert listed is not None
    known = " ".join(re.findall(r'"(.*?)"', listed[1])).split()

    code = "import json\nSUBMIT(names=[n for n in dir() if n[0] != '_' and n not in ('doc', 'json')])"
    config = RunConfig(Signature.of("doc -> names: list[str]"), scripted_lm([f"```python\n{code}\n```"]), pool=pool)
    result = asyncio.run(config.run({"doc": "x"}))
    assert sorted(known) == sorted(result.to_dict()["outputs"]["names"])
