"""Signatures: the typed inputs and outputs of a task, with their models, schemas and validation.

A signature is read from a `dspy.Signature` class or from text (`parser.py`). Only `to_dspy()` imports dspy.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import cached_property
from typing import Annotated, Any, TypeVar

import pydantic
from pydantic import BaseModel, TypeAdapter

from ..json_values import jsonable, pointer, preview_typed
from ..mounts import has_files, holds_files
from ..mounts.output import OutputFile, as_output
from .cited import Cited, is_cited
from .code_values import code_value, keeps_types
from .fields import Field, UntitledSchema, allow_shadowing, check_name, make_adapter, make_model
from .parser import REQUIRED, SignatureError, parse
from .validation import InvalidInputs, InvalidOutputs, Problem, check, fits, plain

# `cached_property` has no lock since Python 3.12, and two output models of one signature would be different types.
_building = threading.RLock()
T = TypeVar("T")


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of a task, with its instructions."""

    name: str
    instructions: str
    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...]
    _dspy: Any = dataclass_field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.outputs:
            raise SignatureError(f"signature {self.name!r} has no outputs")
        seen: set[str] = set()
        for field in (*self.inputs, *self.outputs):
            if field.name in seen:
                raise SignatureError(f"signature {self.name!r} has two fields named {field.name!r}")
            seen.add(field.name)
            check_name(field.name)
        if any(holds_files(field.type) for field in self.outputs):
            object.__setattr__(self, "outputs", tuple(map(_written, self.outputs)))

    @classmethod
    def of(
        cls,
        source: Any,
        *,
        instructions: str | None = None,
        name: str | None = None,
        types: Mapping[str, Any] | None = None,
        reserved: Collection[str] = (),
    ) -> Signature:
        """Return the signature of a `dspy.Signature` class, of text or of a signature; `reserved` names are refused."""
        if isinstance(source, Signature):
            signature = source
        elif isinstance(source, str):
            signature = _from_text(source, types)
        elif _is_dspy(source):
            signature = _from_dspy(source)
        else:
            raise SignatureError(
                f"a signature is a dspy.Signature class or text such as 'doc: str -> title: str', not {source!r:.80}"
            )
        if instructions is not None or name is not None:
            text = signature.instructions if instructions is None else instructions
            signature = cls(name or signature.name, text, signature.inputs, signature.outputs)
        signature.refuse_names(reserved)
        return signature

    def refuse_names(self, reserved: Collection[str]) -> None:
        """Raise `SignatureError` if a field has one of the names of the REPL."""
        taken = [field.name for field in (*self.inputs, *self.outputs) if field.name in reserved]
        if taken:
            raise SignatureError(
                f"signature {self.name!r}: {', '.join(map(repr, taken))} would hide a name of the REPL; rename it"
            )

    def citing(self, names: Collection[str]) -> Signature:
        """Return the signature with outputs that are submitted with quotes: `Cited[...]`. Raise `SignatureError`."""
        outputs = {field.name: field for field in self.outputs}
        for name in names:
            if name not in outputs:
                raise SignatureError(f"{name!r} is no output of {self.name!r}; these are {', '.join(outputs)}")
            kind = outputs[name].type
            if not is_cited(kind):
                outputs[name] = replace(outputs[name], type=Cited.__class_getitem__(kind), typed=True)
        return Signature(self.name, self.instructions, self.inputs, tuple(outputs.values())) if names else self

    @cached_property
    def cited(self) -> frozenset[str]:
        """The outputs that are submitted with quotes."""
        return frozenset(field.name for field in self.outputs if is_cited(field.type))

    @cached_property
    def writes_files(self) -> bool:
        """Whether an output is a file that code writes, or has such files in it."""
        return any(holds_files(field.type, OutputFile) for field in self.outputs)

    def without_quotes(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return outputs, which are plain JSON, with the values alone of those that are submitted with quotes."""
        return {
            name: value["value"] if name in self.cited and isinstance(value, dict) and "value" in value else value
            for name, value in outputs.items()
        }

    def to_dspy(self) -> Any:
        """Return the `dspy.Signature` class: the one this was read from, or a new one of the same fields."""
        if self._dspy is not None:
            return self._dspy
        import dspy

        fields = {field.name: (field.type, _dspy_field(dspy.InputField, field)) for field in self.inputs}
        fields |= {field.name: (field.type, _dspy_field(dspy.OutputField, field)) for field in self.outputs}
        with allow_shadowing():
            return dspy.Signature(fields, self.instructions or None, self.name)

    # Outputs -----------------------------------------------------------------------------------------------------

    @property
    def output_model(self) -> type[BaseModel]:
        """The pydantic model of the outputs: frozen, without other fields."""
        with _building:
            return self._output_model

    @cached_property
    def _output_model(self) -> type[BaseModel]:
        return make_model(f"{self.name}Outputs", self.instructions, self.outputs)

    @cached_property
    def _output_adapter(self) -> TypeAdapter[BaseModel]:
        return TypeAdapter(self.output_model)

    def output_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the outputs; nested models are in `$defs`."""
        schema = self.output_model.model_json_schema(schema_generator=UntitledSchema)
        schema.pop("description", None)
        return schema

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return a value derived from this signature; it is computed once for each name."""
        with _building:
            cache: dict[str, Any] = self.__dict__.setdefault("_derived", {})
            if name not in cache:
                cache[name] = make()
            return cache[name]  # type: ignore[no-any-return]

    def field_list(self, fields: Iterable[Field] | None = None) -> str:
        """Return fields for a prompt, one a line: name, type in words, description. By default the outputs."""
        return "\n".join(str(field) for field in (self.outputs if fields is None else fields))

    def check_outputs(self, values: Mapping[str, Any] | BaseModel) -> BaseModel:
        """Return the typed outputs. Raise `InvalidOutputs` with everything that is wrong."""
        values = dict(values) if isinstance(values, Mapping | BaseModel) else values
        given, problems = plain(values)
        if not problems:
            outputs, found = self._checked(given)
            if outputs is not None:
                return outputs
            problems = self._named(found, self.outputs)
        raise InvalidOutputs(f"these are not the outputs of {self.name}:", problems)

    def _checked(self, given: Any) -> tuple[BaseModel | None, list[Problem]]:
        return check(self._output_adapter, given)

    def outputs_from_json(self, document: str | bytes | Mapping[str, Any]) -> BaseModel:
        """Return the typed outputs from JSON, as text or parsed."""
        if isinstance(document, str | bytes):
            try:
                document = json.loads(document)
            except (ValueError, RecursionError) as error:
                problem = Problem("", "a JSON object", f"text that is not JSON ({error})")
                raise InvalidOutputs(f"these are not the outputs of {self.name}:", [problem]) from None
        return self.check_outputs(document)  # type: ignore[arg-type]  # whatever it is, it is checked there

    def outputs_to_json(self, outputs: BaseModel) -> dict[str, Any]:
        """Return the outputs as plain JSON values, which `outputs_from_json` reads."""
        return outputs.model_dump(mode="json", by_alias=True, round_trip=True)

    # Inputs ------------------------------------------------------------------------------------------------------

    @cached_property
    def _typed_inputs(self) -> frozenset[str]:
        return frozenset(field.name for field in self.inputs if not field.typed or keeps_types(field.type))

    @cached_property
    def _input_adapters(self) -> dict[str, TypeAdapter[Any]]:
        return {field.name: make_adapter(field.type) for field in self.inputs}

    def check_inputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the typed inputs with defaults. Raise `InvalidInputs` with each invalid, missing and unknown one."""
        known = {field.name: field for field in self.inputs}
        unknown = [name for name in values if name not in known]
        problems = [
            Problem(pointer((name,)), "nothing (there is no such input)", preview_typed(values[name]))
            for name in unknown
        ]
        inputs: dict[str, Any] = {}
        for name, field in known.items():
            if name in values:
                inputs[name], found = self._check_input(field, values[name])
                problems += found
            elif field.required:
                problems.append(Problem(pointer((name,)), field.type_text, "nothing"))
            else:
                inputs[name] = field.default_value()
        if problems:
            listed = ", ".join(f"{field.name}: {field.type_text}" for field in self.inputs) or "none"
            raise InvalidInputs(f"{self.name} cannot run with these inputs (it takes {listed}):", problems)
        return inputs

    def takes(self, name: str, value: Any) -> bool:
        """Return whether `check_inputs` would accept this value for the input of this name."""
        adapter = self._input_adapters.get(name)
        if adapter is None:
            return False
        try:
            adapter.validate_python(value, strict=True)
            return True
        except pydantic.ValidationError:
            field = next(field for field in self.inputs if field.name == name)
            if not field.typed:
                return True
            given, problems = plain(value, (name,))
            return not problems and fits(adapter, given)

    def plain_inputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs, validated, as code gets them: plain values, with dates, sets and tuples where the
        signature has them. Raise `InvalidInputs`."""
        inputs: dict[str, Any] = {}
        problems: list[Problem] = []
        for name, value in self.check_inputs(values).items():
            try:
                convert = code_value if name in self._typed_inputs or has_files(value) else jsonable
                inputs[name] = value if isinstance(value, bytes) else convert(value)
            except (ValueError, TypeError, RecursionError):
                problems.append(
                    Problem(pointer((name,)), "text, bytes, or a value that JSON can carry", preview_typed(value))
                )
        if problems:
            raise InvalidInputs(f"{self.name} cannot run with these inputs:", problems)
        return inputs

    def _check_input(self, field: Field, value: Any) -> tuple[Any, list[Problem]]:
        adapter = self._input_adapters[field.name]
        try:
            return adapter.validate_python(value, strict=True), []
        except pydantic.ValidationError:
            if not field.typed:
                return value, []
            # It may have the JSON form of the type: a date as text, a model as a dict.
        given, problems = plain(value, (field.name,))
        if problems:
            return None, [Problem(pointer((field.name,)), field.type_text, preview_typed(value))]
        typed, found = check(adapter, given, (field.name,))
        return typed, self._named(found, (field,))

    def _named(self, problems: Iterable[Problem], fields: Iterable[Field]) -> list[Problem]:
        """Return the problems; those of whole fields have the type of the field in words."""
        words = {pointer((field.name,)): field.type_text for field in fields}
        return [
            Problem(problem.path, words[problem.path], problem.got)
            if problem.path in words and not problem.message
            else problem
            for problem in problems
        ]

    def __getstate__(self) -> dict[str, Any]:
        # Models created here cannot be imported, so they are created again where the signature is unpickled.
        return {
            key: value for key, value in self.__dict__.items() if key in ("name", "instructions", "inputs", "outputs")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _dspy=None)


def _from_text(text: str, types: Mapping[str, Any] | None) -> Signature:
    sides = parse(text, types)
    inputs, outputs = (
        tuple(Field(field.name, field.type, "", field.default, field.typed) for field in side) for side in sides
    )
    seen: set[str] = set()
    for field in (*sides[0], *sides[1]):
        try:
            check_name(field.name)
            if field.name in seen:
                raise SignatureError(f"{field.name!r} is a field already")
        except SignatureError as error:
            raise SignatureError(str(error), text, field.position) from None
        seen.add(field.name)
    if not outputs:
        raise SignatureError("no outputs after '->'", text, len(text))
    given, asked = (", ".join(f"`{field.name}`" for field in side) for side in (inputs, outputs))
    instructions = f"Given {given}, produce {asked}." if given else f"Produce {asked}."
    return Signature("Task", instructions, inputs, outputs)


def _written(field: Field) -> Field:
    """Return an output whose files are those that code writes."""
    try:
        return replace(field, type=as_output(field.type))
    except TypeError as error:
        raise SignatureError(f"{field.name!r}: {error}") from None


def _is_dspy(source: Any) -> bool:
    # By its attributes: `isinstance` would import dspy.
    return isinstance(source, type) and all(
        hasattr(source, name) for name in ("input_fields", "output_fields", "instructions", "model_fields")
    )


def _from_dspy(source: Any) -> Signature:
    inputs, outputs = (
        tuple(_field(name, info) for name, info in side.items()) for side in (source.input_fields, source.output_fields)
    )
    return Signature(source.__name__, source.instructions, inputs, outputs, source)


def _field(name: str, info: Any) -> Field:
    extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    description = str(extra.get("desc") or info.description or "")
    kind = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    default = REQUIRED if info.is_required() else info.get_default(call_default_factory=True)
    # dspy sets `${name}` where a field has no description.
    typed = not extra.get("IS_TYPE_UNDEFINED")
    return Field(name, kind, "" if description == f"${{{name}}}" else description, default, typed)


def _dspy_field(make: Callable[..., Any], field: Field) -> Any:
    options: dict[str, Any] = {} if field.required else {"default": field.default_value()}
    return make(desc=field.description, **options) if field.description else make(**options)
