"""The cells that an oracle writes as the main model of an RLM: find, read, answer, submit; some of them are faulty."""

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

_MESSAGES_PER_CALL = 40
"""Messages in one sub-call, few enough to be read well."""

_MAX_BATCH_CHARS = 1_000_000
"""Characters of one batch of sub-calls: a session accepts only a few megabytes."""

_FIND = """
import re
LOOKED_FOR = {looked_for}
text = {text}
facts = [(kind, m["a"], m["b"]) for kind, pattern in LOOKED_FOR for m in re.finditer(pattern, text)]
facts = [fact for fact in facts if {wanted}]
print(f"found {{len(facts)}} facts, such as", facts[:2])
"""
_TOPICS = """
def packed(texts, most):
    parts, room = [], 0
    for text in texts:
        line = len(text) + 7
        if not parts or len(parts[-1]) == most or room < line:
            parts.append([])
            room = {room}
        parts[-1].append(text)
        room -= line
    return parts

topics, left = {{}}, {calls} - 1  # a run ends with its last call
for attempt in range(3):
    todo = [text for text in dict.fromkeys(fact[2] for fact in facts) if text not in topics]
    parts = packed(todo, max({few}, -(-len(todo) // max(1, left * 4 // 5))))[:left]
    left -= len(parts)
    prompts = [{question!r} + "\\n" + "\\n".join(f"{{i}}: {{text}}" for i, text in enumerate(part)) for part in parts]
    replies, step = [], max(1, {at_once} // max(map(len, prompts), default=1))
    for start in range(0, len(prompts), step):
        replies += llm_query_batched(prompts[start : start + step])
    for part, reply in zip(parts, replies):
        for number, topic in re.findall(r"(?m)^(\\d+): (\\w+)$", reply or ""):
            topics[part[int(number)]] = topic
read = [(topics.get(fact[2], ""), fact[1], fact[2]) for fact in facts]
print(f"read {{sum(bool(topic) for topic, _, _ in read)}} of {{len(facts)}}")
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
    """Return the next cell, given the output of the earlier ones. An empty text is a reply without code.

    `calls` is the number of sub-calls that are left according to the prompt.
    """
    stage = _next_stage(question, printed)
    if dice.chance(settings.bad_code):
        return _faulty(dice, question, stage)
    if stage == "find":
        return _find_cell(question, half=dice.chance(settings.wrong_code))
    if stage == "read":
        if question.skill.reads == "letter":
            return _LETTER.format(question=f"{TAKE} {task}").strip()
        room = min(settings.window * 4 - len(LABEL) - 100, _MAX_BATCH_CHARS)
        return _TOPICS.format(
            question=LABEL, few=_MESSAGES_PER_CALL, room=room, calls=calls, at_once=_MAX_BATCH_CHARS
        ).strip()
    if stage == "answer":
        facts = "facts" if question.skill.reads == "nothing" else "read"
        solve = question.skill.solve
        source = inspect.getsource(solve).replace(": Facts", "").replace(" -> dict[str, Any]", "").replace(": str", "")
        return _ANSWER.format(source=source, name=solve.__name__, facts=facts, about=question.about).strip()
    return "SUBMIT(**outputs)"


def printed_outputs(printed: str) -> dict[str, object] | None:
    """Return the outputs that were printed last, if any."""
    matches = re.findall(r"outputs: (\{.*\})", printed)
    try:
        return dict(json.loads(matches[-1])) if matches else None
    except json.JSONDecodeError:
        return None


def _next_stage(question: Question, printed: str) -> str:
    if "outputs: {" in printed:
        return "submit"
    if re.search(r"read \d+ of \d+", printed):
        return "answer"
    if re.search(r"found [1-9]\d* facts", printed):
        return "read" if question.skill.reads != "nothing" else "answer"
    # If nothing was found, it searches once more before it answers.
    return "answer" if printed.count("found 0 facts") > 1 and question.skill.reads == "nothing" else "find"


def _find_cell(question: Question, *, half: bool) -> str:
    wanted = (
        f"fact[1] == {question.about[0]!r}" if question.skill.reads == "letter" else f"{only(question)!r} in fact[1]"
    )
    return _FIND.format(
        looked_for=list(question.skill.looks_for),
        text="str(doc)[: len(doc) // 2]" if half else "str(doc)",
        wanted=wanted,
    ).strip()


def _faulty(dice: Dice, question: Question, stage: str) -> str:
    """Return code with a typical error of models."""
    if stage == "submit":
        return dice.pick(('SUBMIT("the outputs above")', "SUBMIT(**output)", "SUBMIT(result=outputs)"))
    return dice.pick(
        (
            "",
            _find_cell(question, half=False).replace("str(doc)", "document"),
            _find_cell(question, half=False).replace("for m in", "for m in in"),
            "print(doc.splitlines()[999_999_999])",
        )
    )
