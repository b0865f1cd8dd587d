"""The lower tiers as dspy adapters: JSON that the prompt asks for, and JSON that the model is constrained to.

Their prompts are the chat prompt up to its last sentences: what to write comes at the very end, so that a model's
prompt cache serves every tier.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any, TypedDict

from dspy.adapters.base import Adapter
from dspy.adapters.chat_adapter import ChatAdapter
from dspy.signatures.signature import make_signature
from dspy.utils.exceptions import AdapterParseError

from ..dspy_bridge import apply_output_field_defaults, parse_value, serialize_for_json
from ..extraction import ParseError, Schema, parse
from ..json_schema import bounded
from ..signatures.validation import may_run_away, runaway_problems
from .choices import BareAnswer
from .output_spec import NoTarget, Target, target_of_signature
from .two_step.prompt import named_inputs


class AdapterOptions(TypedDict, total=False):
    """The options that every dspy adapter takes."""

    callbacks: list[Any] | None
    use_native_function_calling: bool
    native_response_types: list[Any] | None
    parallel_tool_calls: bool | None


def options_of(adapter: Adapter) -> AdapterOptions:
    """Return the options of an adapter, for another one like it."""
    return {
        "callbacks": adapter.callbacks,
        "use_native_function_calling": adapter.use_native_function_calling,
        "native_response_types": adapter.native_response_types,
        "parallel_tool_calls": adapter.parallel_tool_calls,
    }


class JsonTier(ChatAdapter):  # type: ignore[misc]
    """Tier 2: the chat prompt, with a JSON object for an answer."""

    def __init__(self, like: ChatAdapter) -> None:
        super().__init__(use_json_adapter_fallback=False, **options_of(like))

    def user_message_output_requirements(self, signature: Any) -> str:
        """Return what to write: the end of the prompt."""
        return f"Respond with {_instructions(signature)}. Write the JSON only, without any other text or markers."

    def format_assistant_message_content(
        self, signature: Any, outputs: Mapping[str, Any], missing_field_message: str | None = None
    ) -> str:
        """Return the answer of an example, as JSON."""
        answer = {name: outputs.get(name, missing_field_message) for name in signature.output_fields}
        return json.dumps(serialize_for_json(answer), ensure_ascii=False)

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """Return the outputs in an answer: the last object in it that fits. Raises `AdapterParseError`."""
        try:
            target = target_of_signature(signature)
        except NoTarget:
            return _lenient(signature, completion, None)
        try:
            outputs = dict(target.find(completion))
            if any(name in completion for name in outputs):
                return outputs
            raise ParseError("invalid", "none of the fields is in the answer")  # though each of them may be left out
        except ParseError as error:
            if error.kind != "invalid":
                raise parse_error(signature, completion, error.message) from error
            # What dspy's own adapters accept still counts: "5" where a number is expected.
            return _lenient(signature, completion, error)


class StrictTier(JsonTier):
    """Tier 3: the model is constrained to the target, by itself or by its server. Its answer is checked anyway."""

    def constrain(self, target: Target, lm_kwargs: dict[str, Any]) -> None:
        """Add the constraint to the keywords of a call."""
        raise NotImplementedError

    def _call_preprocess(self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, inputs: dict[str, Any]) -> Any:
        processed = super()._call_preprocess(lm, lm_kwargs, signature, inputs)
        self.constrain(target_of_signature(processed), lm_kwargs)
        return processed

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """Return the outputs of an answer that is nothing but the JSON."""
        try:
            return dict(target_of_signature(signature).read(completion))
        except ParseError as error:
            raise parse_error(signature, completion, error.message) from error


class ConstrainedTier(StrictTier):
    """Tier 3 for a model that can be constrained to a type token by token."""

    def __init__(self, like: ChatAdapter, *, as_json: bool = False, room: int | None = None) -> None:
        """Create the tier. `as_json` asks for a single choice as JSON; `room` bounds an answer to about so many
        characters.
        """
        super().__init__(like)
        self._as_json = as_json
        self._room = room

    def constrain(self, target: Target, lm_kwargs: dict[str, Any]) -> None:
        """Constrain the answer to the type; a choice has no JSON around it."""
        bare = self._bare(target)
        lm_kwargs["_outlines_constraint"] = bare.constraint if bare is not None else constraint_of(target, self._room)

    def _bare(self, target: Target) -> BareAnswer | None:
        return None if self._as_json else target.bare

    def user_message_output_requirements(self, signature: Any) -> str:
        """Return what to write: JSON, or the choice alone."""
        bare = self._bare(target_of_signature(signature))
        if bare is None:
            return super().user_message_output_requirements(signature)
        return f"Respond with {bare.instructions}"

    def format_assistant_message_content(
        self, signature: Any, outputs: Mapping[str, Any], missing_field_message: str | None = None
    ) -> str:
        """Return the answer of an example: JSON, or the choice alone."""
        target = target_of_signature(signature)
        if self._bare(target) is None or target.fields[0] not in outputs:
            return super().format_assistant_message_content(signature, outputs, missing_field_message)
        return str(serialize_for_json(outputs[target.fields[0]]))


def constraint_of(target: Target, room: int | None = None) -> Any:
    """Return the constraint of a target as JSON; with `room`, for answers of about so many characters."""
    return target.constraint if room is None else bounded(target.strict, room)


_FENCE = "```json\n"


class BriefTier(ConstrainedTier):
    """Tier 3 for a model that begins with it: the task and the inputs in one message, and nothing else.

    The constraint enforces the form in any case. A small model is right more often the less its prompt says about the
    form: the names and types of the fields in words cost a model of half a billion parameters one right answer in
    seven. Its answer begins with a fence, as such models begin JSON on their own. A choice is made inside JSON, where
    they choose better than in words, and is all they write.
    """

    def format(self, signature: Any, demos: Any, inputs: Any) -> list[dict[str, Any]]:
        """Put the task into the user's message: such models know one system message only, their own."""
        system, first, *rest = super().format(signature, demos, inputs)
        prefill = {"role": "assistant", "content": self._prefill(signature)}
        if not isinstance(first["content"], str):  # a picture, say
            return [system, first, *rest, prefill]
        return [{**first, "content": f"{system['content']}\n\n{first['content']}"}, *rest, prefill]

    def format_system_message(self, signature: Any) -> str:
        """Return the task, and the descriptions that its fields have."""
        fields = {**signature.input_fields, **signature.output_fields}
        described = {name: (field.json_schema_extra or {}).get("desc") for name, field in fields.items()}
        lines = [f"- {name}: {text}" for name, text in described.items() if text and text != f"${{{name}}}"]
        return "\n".join([inspect.cleandoc(signature.instructions), *lines])

    def format_user_message_content(
        self, signature: Any, inputs: dict[str, Any], prefix: str = "", suffix: str = "", main_request: bool = False
    ) -> str:
        """Return the inputs under their names."""
        lines = [f"{name.capitalize()}: {value}" for name, value in named_inputs(signature, inputs)]
        return "\n\n".join(part for part in (prefix, *lines, suffix) if part)

    def format_assistant_message_content(
        self, signature: Any, outputs: Mapping[str, Any], missing_field_message: str | None = None
    ) -> str:
        """Return the answer of an example: JSON in a fence, also for a choice."""
        answer = JsonTier.format_assistant_message_content(self, signature, outputs, missing_field_message)
        return f"{_FENCE}{answer}\n```"

    def _prefill(self, signature: Any) -> str:
        target = target_of_signature(signature)
        bare = self._bare(target)
        if bare is None:
            return _FENCE
        return f"{_FENCE}{{{json.dumps(target.fields[0])}: {bare.opening}".rstrip(" ")


class MessagesAdapter(Adapter):  # type: ignore[misc]
    """Sends messages to a model as they are, and returns its text as it is."""

    signature = make_signature("-> text")

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        super().__init__()
        self._messages = messages

    def format(self, signature: Any, demos: Any, inputs: Any) -> list[dict[str, Any]]:
        """Return the messages."""
        return self._messages

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """Return the text."""
        return {"text": completion}


async def run_adapter(adapter: Any, asynchronous: bool, lm: Any, lm_kwargs: Mapping[str, Any], *about: Any) -> Any:
    """Call an adapter with a copy of the keywords, which dspy's adapters change. Waits only if `asynchronous`."""
    keywords = dict(lm_kwargs)
    return await adapter.acall(lm, keywords, *about) if asynchronous else adapter(lm, keywords, *about)


async def ask_messages(
    lm: Any, messages: list[dict[str, Any]], lm_kwargs: Mapping[str, Any], asynchronous: bool
) -> str:
    """Return a model's answer to messages; an empty text for an empty answer."""
    adapter = MessagesAdapter(messages)
    try:
        answers = await run_adapter(adapter, asynchronous, lm, lm_kwargs, MessagesAdapter.signature, [], {})
    except AdapterParseError:  # dspy's error for an empty answer
        return ""
    return str(answers[0]["text"])


def parse_error(signature: Any, completion: str, reason: str) -> AdapterParseError:
    """Return the error that starts the next tier."""
    return AdapterParseError("OutlinesAdapter", signature, completion, reason)


def _instructions(signature: Any) -> str:
    try:
        return target_of_signature(signature).instructions
    except NoTarget:
        return f"a JSON object with the fields {', '.join(f'`{name}`' for name in signature.output_fields)}"


def _lenient(signature: Any, completion: str, error: ParseError | None) -> dict[str, Any]:
    """Return the outputs as dspy's own adapters accept them, each field by itself."""
    value = error.best if error is not None else _object(signature, completion)
    if not isinstance(value, dict):
        reason = error.message if error is not None else "there is no JSON object in the answer"
        raise parse_error(signature, completion, reason) from error
    fields: dict[str, Any] = {}
    for name, field in signature.output_fields.items():
        if name in value:
            try:
                fields[name] = parse_value(value[name], field.annotation)
            except ValueError as problem:
                raise parse_error(signature, completion, f"`{name}`: {problem}") from problem
    fields = apply_output_field_defaults(signature, fields)
    missing = [name for name in signature.output_fields if name not in fields]
    if missing:
        raise parse_error(signature, completion, f"the answer has no {', '.join(missing)}")
    check_fields(signature, fields, completion)
    return fields


def _object(signature: Any, completion: str) -> Any:
    names: dict[str, Any] = {name: {} for name in signature.output_fields}
    try:
        return parse(completion, Schema({"type": "object", "properties": names}))
    except ParseError as error:
        raise parse_error(signature, completion, error.message) from error


def check_fields(signature: Any, values: Mapping[str, Any], completion: str) -> None:
    """Check what dspy does not: a field's constraints (a pattern, a bound), and numbers whose digits ran away.

    Raises `AdapterParseError`.
    """
    from typing import Annotated

    from pydantic import TypeAdapter, ValidationError

    if may_run_away(completion):
        plain = {name: serialize_for_json(value) for name, value in values.items()}
        if problems := runaway_problems(plain):
            raise parse_error(signature, completion, str(problems[0]))
    for name, field in signature.output_fields.items():
        if field.metadata and values.get(name) is not None:
            try:
                whole: Any = Annotated[(field.annotation, *field.metadata)]
                TypeAdapter(whole).validate_python(values[name])
            except ValidationError as problem:
                reason = "; ".join(str(detail["msg"]) for detail in problem.errors())
                raise parse_error(signature, completion, f"`{name}`: {reason}") from problem
