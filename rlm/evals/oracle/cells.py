"""The cells that an oracle writes as the main model of an RLM: find, read, answer, submit. Some of them are bad."""

from __future__ import annotations

import inspect
import json
import re

from ..suites.dice import Dice
from ..suites.messages import TOPICS
from .settings import Oracle
from .skills import Question, only

LABEL = "Give the topic of each numbered message below, on a line of its own, as 'number: topic'. The topics are:\n"
LABEL += "\n".join(f"- {topic}: {about}" for topic, about in TOPICS.items())
TAKE = "Take from this letter the record that is asked for, as one JSON object and nothing else."

_FEW = 40
_TOKENS = 60
"""A message has fewer."""

_FIND = """
import re
LOOKED_FOR = {looked_for}
text = {text}
facts = [(kind, m["a"], m["b"]) for kind, pattern in LOOKED_FOR for m in re.finditer(pattern, text)]
facts = [fact for fact in facts if {wanted}]
print(f"found {{len(facts)}} facts, such as", facts[:2])
"""
_TOPICS = """
topics, todo = {{}}, list(range(len(facts)))
for attempt in range(3):
    parts = [todo[start : start + {size}] for start in range(0, len(todo), {size})]
    prompts = [{question!r} + "\\n" + "\\n".join(f"{{i}}: {{facts[i][2]}}" for i in part) for part in parts]
    for reply in llm_query_batched(prompts):
        for number, topic in re.findall(r"(?m)^(\\d+): (\\w+)$", reply or ""):
            topics[int(number)] = topic
    todo = [i for i in range(len(facts)) if i not in topics]
    if not todo:
        break
read = [(topics.get(i, ""), facts[i][1], facts[i][2]) for i in range(len(facts))]
print(f"read {{len(topics)}} of {{len(facts)}}")
"""
_LETTER = """
reply = llm_query({question!r} + "\\n" + facts[0][2])
read = [("letter", facts[0][1], re.search(r"(?s)\\{{.*\\}}", reply).group())]
print(f"read {{len(read)}} of {{len(facts)}}")
"""
_ANSWER = """
import json
{source}
outputs = {name}({facts}, *{about})
print("outputs:", json.dumps(outputs))
"""


def next_cell(settings: Oracle, question: Question, printed: str, task: str, calls: int, dice: Dice) -> str:
    """The next cell, from what the cells before it have printed. An empty text is a reply without code.

    `calls` is how many questions to sub models are left, as far as it was told.
    """
    stage = _stage(question, printed)
    if dice.chance(settings.bad_code):
        return _bad(dice, question, stage)
    if stage == "find":
        return _find(question, half=dice.chance(settings.wrong_code))
    if stage == "read":
        if question.skill.reads == "letter":
            return _LETTER.format(question=f"{TAKE} {task}").strip()
        return _TOPICS.format(question=LABEL, size=_size(settings, printed, calls)).strip()
    if stage == "answer":
        facts = "facts" if question.skill.reads == "nothing" else "read"
        solve = question.skill.solve
        source = inspect.getsource(solve).replace(": Facts", "").replace(" -> dict[str, Any]", "").replace(": str", "")
        return _ANSWER.format(source=source, name=solve.__name__, facts=facts, about=question.about).strip()
    return "SUBMIT(**outputs)"


def printed_outputs(printed: str) -> dict[str, object] | None:
    """The outputs that were printed last, if any were."""
    found = re.findall(r"outputs: (\{.*\})", printed)
    try:
        return dict(json.loads(found[-1])) if found else None
    except json.JSONDecodeError:
        return None


def _stage(question: Question, printed: str) -> str:
    if "outputs: {" in printed:
        return "submit"
    if re.search(r"read \d+ of \d+", printed):
        return "answer"
    if re.search(r"found [1-9]\d* facts", printed):
        return "read" if question.skill.reads != "nothing" else "answer"
    # Where nothing was found it looks once more, and then believes it.
    return "answer" if printed.count("found 0 facts") > 1 and question.skill.reads == "nothing" else "find"


def _size(settings: Oracle, printed: str, calls: int) -> int:
    """How many messages go into one question: few, so that they are read well, if there are calls enough for that."""
    found = [int(number) for number in re.findall(r"found (\d+) facts", printed)]
    needed = -(-found[-1] // max(1, calls * 4 // 5)) if found else _FEW
    return min(max(_FEW, needed), settings.window // _TOKENS)


def _find(question: Question, *, half: bool) -> str:
    wanted = (
        f"fact[1] == {question.about[0]!r}" if question.skill.reads == "letter" else f"{only(question)!r} in fact[1]"
    )
    return _FIND.format(
        looked_for=list(question.skill.looks_for),
        text="str(doc)[: len(doc) // 2]" if half else "str(doc)",
        wanted=wanted,
    ).strip()


def _bad(dice: Dice, question: Question, stage: str) -> str:
    """Code as models write it when they do not take care."""
    if stage == "submit":
        return dice.pick(('SUBMIT("the outputs above")', "SUBMIT(**output)", "SUBMIT(result=outputs)"))
    return dice.pick(
        (
            "",
            _find(question, half=False).replace("str(doc)", "document"),
            _find(question, half=False).replace("for m in", "for m in in"),
            "print(doc.splitlines()[999_999_999])",
        )
    )
