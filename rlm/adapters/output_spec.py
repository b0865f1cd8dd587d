"""Targets: the JSON schema of an answer, the constraint for a model, and the way from its text to typed values.

A target is built once for a signature, a type, a JSON schema or a list of choices, and cached.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema

from .. import json_schema
from ..extraction import ParseError, Schema, parse
from ..signatures import Field, Problem, Signature, SignatureError, fields
from ..signatures.fields import allow_shadowing, describe
from ..signatures.validation import check, runaway_problems, to_float
from .choices import BareAnswer, bare_answer

_SMALL, _FEW = 2_000, 100
"""Schemas and choices of so many characters, and so few choices, are kept; of others only the last ones."""

Checked = tuple[Any, Sequence[Problem]]
"""A typed value and its problems; where there are problems, there is no value."""


@dataclass(frozen=True, slots=True)
class Target:
    """The form of an answer."""

    label: str
    schema: Schema
    """The schema of the values that are accepted."""

    strict: Mapping[str, Any]
    """The schema that a model is constrained to: every property required, no others."""

    constraint: Any
    """The constraint of a local model, as JSON: a type or a schema."""

    check: Callable[[Any], Checked]
    instructions: str
    """What to write, for a prompt."""

    bare: BareAnswer | None = None
    fields: tuple[str, ...] = ()
    """The outputs, where the target is that of a signature."""

    @property
    def object_schema(self) -> Mapping[str, Any]:
        """The strict schema for servers that accept only objects: anything else becomes the `answer` of one."""
        return self.strict if json_schema.is_object(self.strict) else json_schema.wrapped(self.strict)

    def read(self, text: str) -> Any:
        """Return the value of a constrained answer; nothing is repaired. Raises `ParseError`."""
        bare = self.bare.read(text) if self.bare is not None else None
        try:
            value = json.loads(text if bare is None else bare, parse_float=to_float)
        except (ValueError, RecursionError) as error:
            raise ParseError("invalid", f"the answer is not JSON: {error}") from None
        return self.typed(self._as_outputs(value) if bare is not None else value)

    def read_object(self, text: str) -> Any:
        """Return the value of an answer to `object_schema`. Raises `ParseError`."""
        if json_schema.is_object(self.strict):
            return self.read(text)
        try:
            value = json.loads(text, parse_float=to_float)["answer"]
        except (ValueError, RecursionError, TypeError, KeyError) as error:
            raise ParseError("invalid", f"the answer is not an object with an answer: {error!r}") from None
        return self.typed(value)

    def find(self, text: str, *, truncated: bool = False) -> Any:
        """Return the value in an unconstrained answer. Raises `ParseError`."""
        return self.typed(parse(self.as_json(text), self.schema, truncated=truncated))

    def as_json(self, text: str) -> str:
        """Return the text itself, or the JSON for an answer without JSON around it."""
        bare = self.bare.find(text) if self.bare is not None else None
        return text if bare is None else json.dumps(self._as_outputs(json.loads(bare)))

    def typed(self, value: Any) -> Any:
        """Return the typed value of plain JSON. Raises `ParseError` with every problem."""
        problems: Sequence[Problem] = self.schema.problems(value) or runaway_problems(value)
        if not problems:
            typed, problems = self.check(value)
            if not problems:
                return typed
        summary = "; ".join(map(str, problems[:3]))
        raise ParseError("invalid", f"the answer does not fit: {summary}", best=value, problems=tuple(problems))

    def rejection(self, value: Any) -> Sequence[Problem]:
        """Return the problems that the type has with a value which the schema accepts."""
        return self.check(value)[1]

    def _as_outputs(self, value: Any) -> Any:
        return {self.fields[0]: value} if self.fields else value


class _Accepted(fields.UntitledSchema):
    """Schemas of what is accepted: a set may be written with repeats, and is read as a set."""

    def set_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of a list."""
        return {key: part for key, part in super().set_schema(schema).items() if key != "uniqueItems"}

    def frozenset_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of a list."""
        return {key: part for key, part in super().frozenset_schema(schema).items() if key != "uniqueItems"}


class _Strict(fields.UntitledSchema):
    """Schemas for constrained models: a `Decimal` is a number there, and not any text as well."""

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of the number alone."""
        number: dict[str, Any] = super().decimal_schema(schema)["anyOf"][0]
        return number


# Targets of signatures -------------------------------------------------------------------------------------------


class NoTarget(Exception):
    """The outputs have no fixed form; the message says why."""


@functools.lru_cache(maxsize=512)
def target_of_signature(signature: Any) -> Target:
    """Return the target of a `dspy.Signature` class: its outputs together, as one model. Raises `NoTarget`."""
    from dspy.adapters.types import Reasoning, ToolCalls

    if any(field.annotation == ToolCalls for field in signature.output_fields.values()):
        raise NoTarget("tool calls have no fixed form")
    try:
        whole = Signature.of(signature)
        # dspy writes its reasoning as text, and converts it to its own type afterwards.
        plain = tuple(Field(f.name, str, f.description) if f.type is Reasoning else f for f in whole.outputs)
        outputs = Signature(whole.name, whole.instructions, (), plain)
        accepted, strict = _schema_of(outputs, _Accepted), _schema_of(outputs, _Strict)
    except (SignatureError, ValueError) as error:
        raise NoTarget(str(error)) from error
    adapter: TypeAdapter[Any] = TypeAdapter(outputs.output_model)
    reasoning = [field.name for field in whole.outputs if field.type is Reasoning]

    def checked(value: Any) -> Checked:
        model, problems = check(adapter, value)
        if model is None:
            return None, problems
        values = {field.name: getattr(model, field.name) for field in outputs.outputs}
        return {**values, **{name: Reasoning(content=values[name]) for name in reasoning}}, ()

    return Target(
        label=label_of(signature),
        schema=Schema(accepted),
        strict=json_schema.strict(strict),
        constraint=_required_outputs(outputs),
        check=checked,
        instructions=f"a JSON object with {_listed(outputs.outputs)}",
        bare=bare_answer(outputs.outputs[0].type) if len(outputs.outputs) == 1 else None,
        fields=tuple(field.name for field in outputs.outputs),
    )


def _schema_of(outputs: Signature, generator: type[GenerateJsonSchema]) -> dict[str, Any]:
    schema = outputs.output_model.model_json_schema(schema_generator=generator)
    return {key: part for key, part in schema.items() if key != "description"}  # the instructions are in the prompt


def label_of(signature: Any) -> str:
    """Return the name of a signature; one that is written as text is named by its fields."""
    name = str(signature.__name__)
    if name != "StringSignature":
        return name
    outputs = [
        name if field.annotation is str else f"{name}: {describe_type(field.annotation)}"
        for name, field in signature.output_fields.items()
    ]
    return f"{', '.join(signature.input_fields)} -> {', '.join(outputs)}"


def _required_outputs(signature: Signature) -> Any:
    """Return a model of all outputs, each required: a language model that may leave a field out does."""
    required: dict[str, Any] = {field.name: (field.type, ...) for field in signature.outputs}
    with allow_shadowing():
        config = ConfigDict(extra="forbid", protected_namespaces=())
        return create_model(f"{signature.name}Outputs", __config__=config, **required)


def _listed(outputs: Sequence[Field]) -> str:
    named = ", ".join(f"`{field.name}` ({field.type_text})" for field in outputs)
    return f"the fields {named}, in this order" if len(outputs) > 1 else f"the field {named}"


# Targets of types ------------------------------------------------------------------------------------------------


def target_of(output_type: Any) -> Target:
    """Return the target of a Python type, of a JSON schema (a dict) or of choices (a list)."""
    if isinstance(output_type, Mapping):
        text = json.dumps(output_type, sort_keys=False)
        return (_of_schema if len(text) <= _SMALL else _of_large_schema)(text)
    if isinstance(output_type, list | tuple):
        if not output_type or not all(isinstance(choice, str | int | float) for choice in output_type):
            raise TypeError(f"choices are texts or numbers, at least one of them, not {output_type!r:.100}")
        small = len(output_type) <= _FEW and sum(len(str(choice)) for choice in output_type) <= _SMALL
        return (_of_type if small else _of_large_type)(Literal[tuple(output_type)])
    try:
        return _of_type(output_type) if _is_hashable(output_type) else _of_type.__wrapped__(output_type)
    except TypeError as error:
        raise TypeError(f"{output_type!r:.100} is no type that JSON can carry: {error}") from error


def describe_type(output_type: Any) -> str:
    """Return a type or choices in words, as the label of a target."""
    return describe(Literal[tuple(output_type)] if isinstance(output_type, list | tuple) else output_type)


def _is_hashable(output_type: Any) -> bool:
    try:
        hash(output_type)
    except TypeError:  # a type may be annotated with anything
        return False
    return True


@functools.lru_cache(maxsize=512)
def _of_type(output_type: Any) -> Target:
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

    try:
        adapter = TypeAdapter(output_type)
        accepted = adapter.json_schema(schema_generator=_Accepted)
        strict = adapter.json_schema(schema_generator=_Strict)
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise TypeError(str(error).splitlines()[0]) from error
    bare, name = bare_answer(output_type), describe(output_type)

    def checked(value: Any) -> Checked:
        return check(adapter, value)

    instructions = bare.instructions if bare is not None else _instructions(name, strict)
    return Target(name, Schema(accepted), json_schema.strict(strict), output_type, checked, instructions, bare)


_of_large_type = functools.lru_cache(maxsize=4)(_of_type.__wrapped__)


@functools.lru_cache(maxsize=512)
def _of_schema(text: str) -> Target:
    schema = json.loads(text)
    strict, label = json_schema.strict(schema), str(schema.get("title") or "JSON")
    instructions = f"JSON that fits this schema: {text}"
    return Target(label, Schema(schema), strict, strict, lambda value: (value, ()), instructions)


_of_large_schema = functools.lru_cache(maxsize=4)(_of_schema.__wrapped__)


_SCALARS = {"integer": "one whole number in digits", "number": "one number in digits", "boolean": "true or false"}
_BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}


def _instructions(name: str, schema: Mapping[str, Any]) -> str:
    """Return what to write. The schema is shown where the name of the type leaves something open."""
    kind = schema.get("type")
    if kind in _SCALARS:
        bounds = [f", {_BOUNDS[key]} {schema[key]}" for key in _BOUNDS if key in schema]
        return f"{_SCALARS[kind]}{''.join(bounds)}, and nothing else"
    if kind == "string":
        return f"JSON: {name}"
    return f"JSON: {name}\nThe JSON schema: {json.dumps(schema, ensure_ascii=False)}"
