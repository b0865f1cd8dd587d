"""The fields of a signature, and the pydantic types that are made of them."""

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
        """Whether a value has to be given. A nullable field that is left out is None."""
        return self.default is REQUIRED and not self.nullable

    @property
    def type_text(self) -> str:
        """The type in words."""
        return type_names.describe(self.type)

    def default_value(self) -> Any:
        """What the field holds when nothing was given; a copy, so that no two runs share it."""
        return None if self.default is REQUIRED else copy.deepcopy(self.default)

    def __str__(self) -> str:
        line = f"- {self.name} ({self.type_text})"
        if not self.required:
            line += ", optional"
        return f"{line}: {self.description}" if self.description else line


class Schema(GenerateJsonSchema):
    """Schemas without a title for each field, which would only repeat its name in every prompt."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never."""
        return False


def check_name(name: str) -> None:
    """Raise if no field can have this name."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise SignatureError(f"{name!r} cannot be a field: it is not a Python name")
    if name.startswith("_"):
        raise SignatureError(f"{name!r} cannot be a field: a name with a leading underscore is private")
    if name.startswith("model_") and hasattr(BaseModel, name):
        raise SignatureError(f"{name!r} cannot be a field: every pydantic model has an attribute of that name")


class _Made(BaseModel):
    """What models of fields have in common. Nothing can import them: a pickle holds the fields, too."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())
    __made_of__: ClassVar[tuple[str, str, tuple[Field, ...]]]

    def __reduce__(self) -> Any:
        return _empty, self.__made_of__, self.__getstate__()


_models: WeakSet[type[_Made]] = WeakSet()


def make_model(name: str, description: str, fields: Iterable[Field]) -> type[BaseModel]:
    """A pydantic model of fields: frozen, without other fields."""
    fields = tuple(fields)
    made: dict[str, Any] = {}
    for field in fields:
        default = ... if field.required else field.default_value()
        made[field.name] = (field.type, pydantic.Field(default, description=field.description or None))
    try:
        with allow_shadowing():
            model = pydantic.create_model(name, __base__=_Made, __doc__=description or None, **made)
    except pydantic.PydanticUserError as error:
        raise SignatureError(f"{name}: a field has a type that JSON cannot carry: {error.message}") from error
    model.__made_of__ = (name, description, fields)
    _models.add(model)
    return model


def _empty(*made_of: Any) -> BaseModel:
    """An instance of a model of these fields, for `pickle`; of the one that is there already, if there is one."""
    same = next((model for model in list(_models) if model.__made_of__ == made_of), None)
    model = same or make_model(*made_of)
    return model.__new__(model)


@contextlib.contextmanager
def allow_shadowing() -> Iterator[None]:
    """A field may be called `json` or `copy`: the deprecated methods of those names are of no use here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Field name .* shadows an attribute", category=UserWarning)
        yield


def make_adapter(kind: Any) -> TypeAdapter[Any]:
    """What checks values of a type. A class that pydantic does not know accepts its instances."""
    try:
        return TypeAdapter(kind, config=ConfigDict(arbitrary_types_allowed=True))
    except pydantic.PydanticUserError:  # the type brings its own configuration
        return TypeAdapter(kind)
