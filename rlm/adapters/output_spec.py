"""What an answer has to be: its JSON schema, how a model can be held to it, and how its text becomes typed values.

A target is made once for a signature, a type, a JSON schema or a list of choices, and kept.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema

from ..extraction import ParseError, Schema, parse
from ..runaway import runaway_problems, to_float
from ..signatures import Field, Problem, Signature, SignatureError
from ..signatures.fields import allow_shadowing
from ..signatures.type_names import describe
from ..signatures.validation import check
from .choices import Bare, bare_of
from .strict_schema import Accepted, Strict, closed, is_object, wrapped

Checked = tuple[Any, Sequence[Problem]]
"""A typed value, and what is wrong with it; where something is, there is no value."""


@dataclass(frozen=True, slots=True)
class Target:
    """What an answer has to be."""

    label: str
    schema: Schema
    """What is accepted."""

    strict: Mapping[str, Any]
    """The schema that a model is held to: every field asked for, no others."""

    constraint: Any
    """What a local model is held to, as JSON: a type or a schema."""

    check: Callable[[Any], Checked]
    words: str
    """What to write, for a prompt."""

    bare: Bare | None = None
    fields: tuple[str, ...] = ()
    """The outputs, where the target is a signature's."""

    @property
    def object_schema(self) -> Mapping[str, Any]:
        """The strict schema for servers that take only objects: anything else is wrapped in one, as its `answer`."""
        return self.strict if is_object(self.strict) else wrapped(self.strict)

    def read(self, text: str) -> Any:
        """The value of an answer that was held to the target; nothing is mended. Raises `ParseError`."""
        bare = self.bare.read(text) if self.bare is not None else None
        try:
            value = json.loads(text if bare is None else bare, parse_float=to_float)
        except (ValueError, RecursionError) as error:
            raise ParseError("invalid", f"the answer is not JSON: {error}") from None
        return self.typed(self._as_outputs(value) if bare is not None else value)

    def read_object(self, text: str) -> Any:
        """As `read`, for an answer to `object_schema`."""
        if is_object(self.strict):
            return self.read(text)
        try:
            value = json.loads(text, parse_float=to_float)["answer"]
        except (ValueError, RecursionError, TypeError, KeyError) as error:
            raise ParseError("invalid", f"the answer is not an object with an answer: {error!r}") from None
        return self.typed(value)

    def find(self, text: str, *, truncated: bool = False) -> Any:
        """The value in an answer that was not held to anything. Raises `ParseError`."""
        return self.typed(parse(self.as_json(text), self.schema, truncated=truncated))

    def as_json(self, text: str) -> str:
        """The text itself, or the JSON that it stands for where the answer came bare."""
        bare = self.bare.find(text) if self.bare is not None else None
        return text if bare is None else json.dumps(self._as_outputs(json.loads(bare)))

    def typed(self, value: Any) -> Any:
        """The typed value of plain JSON. Raises `ParseError` with every problem."""
        problems: Sequence[Problem] = self.schema.problems(value) or runaway_problems(value)
        if not problems:
            made, problems = self.check(value)
            if not problems:
                return made
        told = "; ".join(str(one) for one in problems[:3])
        raise ParseError("invalid", f"the answer does not fit: {told}", best=value, problems=tuple(problems))

    def rejection(self, value: Any) -> Sequence[Problem]:
        """What the type refuses in a value that the schema accepts."""
        return self.check(value)[1]

    def _as_outputs(self, value: Any) -> Any:
        return {self.fields[0]: value} if self.fields else value


# Of signatures ---------------------------------------------------------------------------------------------------


class NoTarget(Exception):
    """The outputs cannot be held to anything; the message says why."""


@functools.lru_cache(maxsize=512)
def target_of_signature(signature: Any) -> Target:
    """The target of a `dspy.Signature` class: its outputs, together, as one model. Raises `NoTarget`."""
    from dspy.adapters.types import Reasoning, ToolCalls

    if any(field.annotation == ToolCalls for field in signature.output_fields.values()):
        raise NoTarget("tool calls have no fixed form")
    try:
        whole = Signature.of(signature)
        # dspy writes its reasoning as text, and makes its own type of it afterwards.
        plain = tuple(Field(f.name, str, f.description) if f.type is Reasoning else f for f in whole.outputs)
        outputs = Signature(whole.name, whole.instructions, (), plain)
        schema, strict = _schema_of(outputs, Accepted), _schema_of(outputs, Strict)
    except (SignatureError, ValueError) as error:
        raise NoTarget(str(error)) from error
    adapter: TypeAdapter[Any] = TypeAdapter(outputs.output_model)
    reasoning = [field.name for field in whole.outputs if field.type is Reasoning]

    def checked(value: Any) -> Checked:
        made, problems = check(adapter, value)
        if made is None:
            return None, problems
        values = {field.name: getattr(made, field.name) for field in outputs.outputs}
        return {**values, **{name: Reasoning(content=values[name]) for name in reasoning}}, ()

    return Target(
        label=label_of(signature),
        schema=Schema(schema),
        strict=closed(strict),
        constraint=_asked_for(outputs),
        check=checked,
        words=f"a JSON object with {_listed(outputs.outputs)}",
        bare=bare_of(outputs.outputs[0].type) if len(outputs.outputs) == 1 else None,
        fields=tuple(field.name for field in outputs.outputs),
    )


def _schema_of(outputs: Signature, generator: type[GenerateJsonSchema]) -> dict[str, Any]:
    schema = outputs.output_model.model_json_schema(schema_generator=generator)
    return {key: part for key, part in schema.items() if key != "description"}  # the instructions, told elsewhere


def label_of(signature: Any) -> str:
    """The name of a signature; those written as text have none, so their fields are it."""
    name = str(signature.__name__)
    if name != "StringSignature":
        return name
    outputs = [
        field if kind.annotation is str else f"{field}: {describe_type(kind.annotation)}"
        for field, kind in signature.output_fields.items()
    ]
    return f"{', '.join(signature.input_fields)} -> {', '.join(outputs)}"


def _asked_for(signature: Signature) -> Any:
    """One model of all outputs. Every field is asked for: a model that may leave one out leaves it out."""
    made: dict[str, Any] = {field.name: (field.type, ...) for field in signature.outputs}
    with allow_shadowing():
        config = ConfigDict(extra="forbid", protected_namespaces=())
        return create_model(f"{signature.name}Outputs", __config__=config, **made)


def _listed(fields: Sequence[Field]) -> str:
    named = ", ".join(f"`{field.name}` ({field.type_text})" for field in fields)
    return f"the fields {named}, in this order" if len(fields) > 1 else f"the field {named}"


# Of types --------------------------------------------------------------------------------------------------------


def target_of(output_type: Any) -> Target:
    """The target of a Python type, of a JSON schema (a dict) or of choices (a list)."""
    if isinstance(output_type, Mapping):
        return _of_schema(json.dumps(output_type, sort_keys=False))
    if isinstance(output_type, list | tuple):
        if not output_type or not all(isinstance(one, str | int | float) for one in output_type):
            raise TypeError(f"choices are texts or numbers, at least one of them, not {output_type!r:.100}")
        return _of_type(Literal[tuple(output_type)])
    try:
        return _of_type(output_type) if _is_hashable(output_type) else _of_type.__wrapped__(output_type)
    except TypeError as error:
        raise TypeError(f"{output_type!r:.100} is no type that JSON can carry: {error}") from error


def describe_type(output_type: Any) -> str:
    """A type or choices in words, as the label of a target."""
    return describe(Literal[tuple(output_type)] if isinstance(output_type, list | tuple) else output_type)


def _is_hashable(kind: Any) -> bool:
    try:
        hash(kind)
    except TypeError:  # a type may be annotated with anything
        return False
    return True


@functools.lru_cache(maxsize=512)
def _of_type(kind: Any) -> Target:
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

    try:
        adapter = TypeAdapter(kind)
        schema = adapter.json_schema(schema_generator=Accepted)
        strict = adapter.json_schema(schema_generator=Strict)
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise TypeError(str(error).splitlines()[0]) from error
    bare, words = bare_of(kind), describe(kind)

    def checked(value: Any) -> Checked:
        return check(adapter, value)

    told = bare.words if bare is not None else _asked_in_words(words, strict)
    return Target(words, Schema(schema), closed(strict), kind, checked, told, bare)


@functools.lru_cache(maxsize=512)
def _of_schema(text: str) -> Target:
    schema = json.loads(text)
    strict = closed(schema)
    told = f"JSON that fits this schema: {text}"
    return Target(str(schema.get("title") or "JSON"), Schema(schema), strict, strict, lambda value: (value, ()), told)


_SCALARS = {"integer": "one whole number in digits", "number": "one number in digits", "boolean": "true or false"}
_BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}


def _asked_in_words(words: str, schema: Mapping[str, Any]) -> str:
    """What to write. The schema is shown where the words for a type leave something open."""
    kind = schema.get("type")
    if kind in _SCALARS:
        bounds = [f", {_BOUNDS[name]} {schema[name]}" for name in _BOUNDS if name in schema]
        return f"{_SCALARS[kind]}{''.join(bounds)}, and nothing else"
    if kind == "string":
        return f"JSON: {words}"
    return f"JSON: {words}\nThe JSON schema: {json.dumps(schema, ensure_ascii=False)}"
