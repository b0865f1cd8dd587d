"""The second step's signature, `text -> <outputs>`, and what goes into it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dspy.signatures.field import InputField
from dspy.signatures.signature import make_signature

from .words import in_words, text


def extractor_signature(signature: Any) -> Any:
    """`text -> <outputs>`, with the types and descriptions that the outputs have."""
    outputs = {name: (field.annotation, field) for name, field in signature.output_fields.items()}
    named = ", ".join(f"`{name}`" for name in outputs)
    given = next(name for name in ("text", "answer_text", "text_of_the_answer") if name not in outputs)
    fields = {given: (str, InputField(desc="the answer to extract from")), **outputs}
    return make_signature(fields, text("extract").substitute(fields=named), "Extract")


def outputs_of(signature: Any) -> tuple[tuple[str, str, str], ...]:
    """What makes an extractor the right one: the names, types and descriptions of the outputs."""
    return tuple(
        (name, str(field.annotation), str((field.json_schema_extra or {}).get("desc", "")))
        for name, field in signature.output_fields.items()
    )


def without(signature: Any, given: Mapping[str, Any]) -> Any:
    """The signature without the outputs that are there already; None where nothing is left to extract."""
    left = [name for name in signature.output_fields if name not in given]
    for name in given:
        if name in signature.output_fields:
            signature = signature.delete(name)
    return signature if left else None


def examples(given: str, signature: Any, demos: list[Any]) -> list[dict[str, Any]]:
    """Examples for the extractor out of the main model's: its answer there, in words, and the values in it."""
    whole = [demo for demo in demos if all(demo.get(name) is not None for name in signature.output_fields)]
    return [
        {given: in_words(signature, demo), **{name: demo[name] for name in signature.output_fields}} for demo in whole
    ]
