"""The fields of a signature, and the pydantic models and adapters for them."""

from __future__ import annotations

import contextlib
import copy
import keyword
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakSet

import pydantic
from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from . import type_names
from .parser import REQUIRED, SignatureError


@dataclass(frozen=True, slots=True)
class Field:
    """One input or output."""

    name: str
    type: Any = str
    description: str = ""
    default: Any = REQUIRED

    @property
    def nullable(self) -> bool:
        """Whether None is a value of this field."""
        return type_names.accepts_null(self.type)

    @property
    def required(self) -> bool:
        """Whether a value is required. A nullable field without a value is None."""
        return self.default is REQUIRED and not self.nullable

    @property
    def type_text(self) -> str:
        """The type in words, for prompts and messages."""
        return type_names.describe(self.type)

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
