"""A conversation that grows too long: it is shortened, as often as it takes, and the run goes on."""

from __future__ import annotations

from dspy.utils.exceptions import ContextWindowExceededError

from rlm.history import REPLHistoryEntry
from rlm.repl.conversation import Conversation
from rlm.results import Submitted


def test_a_conversation_that_is_compacted_again_and_again_keeps_its_size():
    conversation, history = Conversation("system", "the task", max_chars=20_000), []
    for number in range(1, 100):
        history.append(REPLHistoryEntry(number, None, "x = 1", "o" * 1_500, True))
        conversation.add("reply", "o" * 1_500)
        conversation.compact(history, {})
        assert conversation.size <= 20_000
    assert conversation.edition > 2
    assert conversation.turns[0].text.count("the task") == 1
    assert "Iteration 1:" in conversation.turns[0].text


async def test_a_short_conversation_that_is_too_long_for_the_model_is_compacted_as_far_as_it_can_be(make):
    made = make(["n = len(doc)\nprint('y' * 5_000)"] * 2 + ["print('z' * 5_000)", "SUBMIT(answer=n)"])
    answer = made.main.profile.engine.complete

    async def complete(request):
        if sum(len(message.text) for message in request.messages) > 13_000:
            raise ContextWindowExceededError(model="small")
        return await answer(request)

    made.main.profile.engine.complete = complete
    result = await made.run(doc="x")
    assert isinstance(result, Submitted), result
    (message,) = made.asked()[-1].messages
    assert message.text.startswith("# Task")
    assert "z" * 5_000 in message.text
    assert "y" * 300 not in message.text
