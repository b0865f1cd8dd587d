"""The fields of a signature, and the pydantic models and adapters for them."""

from __future__ import annotations

import contextlib
import copy
import datetime
import enum
import json
import keyword
import types
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin
from weakref import WeakSet

import pydantic
from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from ..mounts.output import OUT, OutputFile
from .cited import is_cited
from .parser import REQUIRED, SignatureError

_WORDS: dict[Any, str] = {
    Any: "any JSON value",
    object: "any JSON value",
    None: "null",
    type(None): "null",
    datetime.date: "date (YYYY-MM-DD)",
    datetime.datetime: "datetime (ISO 8601)",
    OutputFile: f"File, by its name in the folder {OUT}",
}
_BOUNDS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<=", "multiple_of": "a multiple of", "pattern": "matching"}
_BOUNDS |= {"min_length": "length >=", "max_length": "length <="}
_DEPTH = 3  # nested models deeper than this appear by name; the schema has their fields


def describe(kind: Any, *, depth: int = _DEPTH) -> str:
    """Return a type in words: `int`, `one of "a", "b"`, `list of Person {name: str, age: int or null}`."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        bounds = _bounds(inner[1:])
        return describe(inner[0], depth=depth) + (f" ({', '.join(bounds)})" if bounds else "")
    if origin is Union or origin is types.UnionType:
        return " or ".join(dict.fromkeys(describe(item, depth=depth) for item in inner))
    if origin is Literal:
        return _one_of([item.value if isinstance(item, enum.Enum) else item for item in inner])
    if inner and isinstance(origin, type):
        return _container(origin, inner, depth)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _one_of([item.value for item in kind])
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _model(kind, depth)
    return _word(kind)


def _word(kind: Any) -> str:
    try:
        return _WORDS[kind]
    except (KeyError, TypeError):
        return str(getattr(kind, "__name__", kind))


def accepts_null(kind: Any) -> bool:
    """Return whether None is a value of the type."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return accepts_null(inner[0])
    if origin is Union or origin is types.UnionType:
        return any(accepts_null(item) for item in inner)
    if origin is Literal:
        return None in inner
    return kind in (Any, object, None, type(None))


def _one_of(values: list[Any]) -> str:
    words = [json.dumps(value, ensure_ascii=False, default=str) for value in values]
    return f"one of {', '.join(words)}" if len(words) > 1 else f"always {words[0]}"


def _container(origin: type, inner: tuple[Any, ...], depth: int) -> str:
    words = ["..." if item is ... else describe(item, depth=depth) for item in inner]
    if issubclass(origin, dict) and len(words) == 2:
        return f"dict from {words[0]} to {words[1]}"
    if issubclass(origin, tuple) and inner[-1] is not ...:
        return f"list of exactly {len(words)}: {', '.join(words)}"
    unique = " without repeats" if issubclass(origin, set | frozenset) else ""
    return f"list of {words[0]}{unique}"


def _model(kind: type[BaseModel], depth: int) -> str:
    if is_cited(kind):
        inner = describe(kind.model_fields["value"].annotation, depth=depth - 1)
        return f'{{"value": {inner}, "quotes": list of texts copied word for word from the inputs, which support it}}'
    if depth <= 0:
        return kind.__name__
    fields = [
        f"{name}: {describe(_annotated(field.annotation, field.metadata), depth=depth - 1)}"
        for name, field in kind.model_fields.items()
    ]
    return f"{kind.__name__} {{{', '.join(fields)}}}"


def _annotated(kind: Any, metadata: list[Any]) -> Any:
    return Annotated[(kind, *metadata)] if metadata else kind


def _bounds(metadata: tuple[Any, ...]) -> list[str]:
    return [
        f"{word} {value}"
        for constraint in metadata
        for name, word in _BOUNDS.items()
        if (value := getattr(constraint, name, None)) is not None
    ]


@dataclass(frozen=True, slots=True)
class Field:
    """One input or output."""

    name: str
    type: Any = str
    description: str = ""
    default: Any = REQUIRED
    typed: bool = dataclass_field(default=True, compare=False)
    """Whether its type was given. An input without one is described as text, and takes any value."""

    @property
    def nullable(self) -> bool:
        """Whether None is a value of this field."""
        return accepts_null(self.type)

    @property
    def required(self) -> bool:
        """Whether a value is required. A nullable field without a value is None."""
        return self.default is REQUIRED and not self.nullable

    @property
    def type_text(self) -> str:
        """The type in words, for prompts and messages."""
        return describe(self.type)

    def default_value(self) -> Any:
        """Return a copy of the value of a field that was not given: no two runs share one."""
        return None if self.default is REQUIRED else copy.deepcopy(self.default)

    def __str__(self) -> str:
        line = f"- {self.name} ({self.type_text})"
        if not self.required:
            line += ", optional"
        return f"{line}: {self.description}" if self.description else line


class UntitledSchema(GenerateJsonSchema):
    """Generates schemas without a title for each field, which would repeat its name in every prompt."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False."""
        return False


def check_name(name: str) -> None:
    """Raise `SignatureError` if no field can have this name."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise SignatureError(f"{name!r} cannot be a field: it is not a Python name")
    if name.startswith("_"):
        raise SignatureError(f"{name!r} cannot be a field: a name with a leading underscore is private")
    if name.startswith("model_") and hasattr(BaseModel, name):
        raise SignatureError(f"{name!r} cannot be a field: every pydantic model has an attribute of that name")


class _FieldsModel(BaseModel):
    """Base of models that are created from fields. They cannot be imported, so a pickle contains the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())
    __source__: ClassVar[tuple[str, str, tuple[Field, ...]]]

    def __reduce__(self) -> Any:
        return _new_instance, self.__source__, self.__getstate__()


_models: WeakSet[type[_FieldsModel]] = WeakSet()


def make_model(name: str, description: str, fields: Iterable[Field]) -> type[BaseModel]:
    """Return a frozen pydantic model of fields that refuses others."""
    fields = tuple(fields)
    definitions: dict[str, Any] = {}
    for field in fields:
        default = ... if field.required else field.default_value()
        definitions[field.name] = (field.type, pydantic.Field(default, description=field.description or None))
    try:
        with allow_shadowing():
            model = pydantic.create_model(name, __base__=_FieldsModel, __doc__=description or None, **definitions)
    except pydantic.PydanticUserError as error:
        raise SignatureError(f"{name}: a field has a type that JSON cannot carry: {error.message}") from error
    model.__source__ = (name, description, fields)
    _models.add(model)
    return model


def _new_instance(*source: Any) -> BaseModel:
    """Return an empty instance of the model of these fields, for `pickle`; an existing model is used again."""
    existing = next((model for model in list(_models) if model.__source__ == source), None)
    model = existing or make_model(*source)
    return model.__new__(model)


@contextlib.contextmanager
def allow_shadowing() -> Iterator[None]:
    """Allow fields named `json` or `copy`, which shadow deprecated methods of pydantic models."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Field name .* shadows an attribute", category=UserWarning)
        yield


def make_adapter(kind: Any) -> TypeAdapter[Any]:
    """Return an adapter that validates values of a type. A class unknown to pydantic accepts its instances."""
    try:
        return TypeAdapter(kind, config=ConfigDict(arbitrary_types_allowed=True))
    except pydantic.PydanticUserError:  # the type has its own configuration
        return TypeAdapter(kind)
