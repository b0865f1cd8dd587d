"""The base of every section of a task file, and sections that are dataclasses of other packages."""

from __future__ import annotations

import dataclasses
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, create_model
from pydantic_core import CoreSchema, core_schema

from ...units import Duration, Size


class Section(BaseModel):
    """A part of the file. Nothing is converted, and unknown keys are refused."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, protected_namespaces=(), use_attribute_docstrings=True
    )


class FromMapping:
    """Annotation of a dataclass that a mapping of the file is read into, as if it were a section.

    With `text`, a plain text in the file stands for a mapping with this one key.
    """

    def __init__(self, text: str | None = None) -> None:
        self._text = text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        dataclass_schema: Any = handler.resolve_ref_schema(schema)
        dataclass_schema["strict"] = False  # a mapping is accepted; its fields are still strict
        if self._text is None:
            return schema
        return core_schema.no_info_before_validator_function(
            lambda value: {self._text: value} if isinstance(value, str) else value, schema
        )


def section_of(settings: type, **bounds: Any) -> type[Section]:
    """Return a section with the fields, defaults and docstrings of a dataclass. `bounds` hold for every number.

    Fields named as durations and sizes may be written as texts.
    """
    config = ConfigDict(use_attribute_docstrings=True)
    schema = create_model("Settings", __config__=config, settings=(settings, ...)).model_json_schema()
    documented = schema["$defs"][settings.__name__]["properties"]
    types = get_type_hints(settings)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(settings):
        kind = types[field.name]
        if field.name.endswith(("_seconds", "_duration")):
            kind = Duration
        elif field.name.endswith("_bytes"):
            kind = Size
        description = documented[field.name].get("description")
        fields[field.name] = (kind, Field(field.default, description=description, **bounds))
    return create_model(settings.__name__, __base__=Section, **fields)
