"""The second step's signature, `text -> <outputs>`: which extractor serves, what goes into it, what may come out."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from dspy.dsp.utils.settings import settings as dspy_settings
from dspy.predict.predict import Predict
from dspy.signatures.field import InputField
from dspy.signatures.signature import make_signature
from dspy.utils.exceptions import AdapterParseError
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from ...models.profile import profile_of
from ..output_spec import NoTarget, target_of_signature
from .prompt import in_words, text

Outputs = tuple[tuple[str, Any, str, str], ...]
"""Of each output the name, type, bounds and description."""

Kept = tuple[tuple[Outputs, Any], ...]
"""Extractors, each with the outputs that it was made for."""

Pairs = tuple[tuple[Any, Any], ...]
"""Predictors, each with the extractor that is its own."""

# A type's own validators had their say when the text was read; a finished value is not what they are made for.
_BY_VALIDATORS = ("value_error", "assertion_error")


def extractor_signature(signature: Any) -> Any:
    """`text -> <outputs>`, with the types and descriptions that the outputs have."""
    outputs = {name: (field.annotation, field) for name, field in signature.output_fields.items()}
    named = ", ".join(f"`{name}`" for name in outputs)
    given = next(name for name in ("text", "answer_text", "text_of_the_answer") if name not in outputs)
    fields = {given: (str, InputField(desc="the answer to extract from")), **outputs}
    return make_signature(fields, text("extract").substitute(fields=named), "Extract")


@functools.lru_cache(maxsize=512)
def passing_signature(signature: Any) -> Any:
    """As `extractor_signature`, for an extractor that nobody keeps: made once, so that its schema is compiled once."""
    return extractor_signature(signature)


def outputs_of(signature: Any) -> Outputs:
    """What makes an extractor the right one: the names, types and descriptions of the outputs.

    Types are compared as themselves: two classes may have one name.
    """
    return tuple(
        (name, field.annotation, str(field.metadata), str((field.json_schema_extra or {}).get("desc", "")))
        for name, field in signature.output_fields.items()
    )


def serving(signature: Any, pairs: Pairs, kept: Kept) -> Any:
    """The caller's own extractor, else the one that is kept for these outputs, else one for this call."""
    found = callers_own(signature, pairs) or kept_for(signature, kept)
    return found or Predict(passing_signature(signature))


def kept_for(signature: Any, kept: Kept) -> Any:
    """The extractor that is kept for these outputs; None where there is none."""
    wanted = outputs_of(signature)
    return next((extractor for outputs, extractor in kept if outputs == wanted), None)


def callers_own(signature: Any, pairs: Pairs) -> Any:
    """The extractor of the predictor that is calling; None where it has none, or none for these outputs."""
    around = dspy_settings.caller_modules
    caller = around[-1] if around else None
    if caller is None or not pairs:
        return None
    same = [extractor for predictor, extractor in pairs if predictor is caller]
    # dspy.BestOfN and dspy.Refine call copies of the predictors: a copy keeps the `stage` that dspy gave to the first.
    stage = getattr(caller, "stage", None)
    like = [extractor for predictor, extractor in pairs if stage and getattr(predictor, "stage", None) == stage]
    wanted = _types(signature)
    return next((one for one in (*same, *like) if _types(one.signature) == wanted), None)


def default_adapter(lm: Any, signature: Any) -> Any:
    """What an extractor is asked through unless told: JSON; a model that can be held to the outputs is held to them."""
    if profile_of(lm).constrains and _has_target(signature):
        from ..outlines_adapter import OutlinesAdapter

        return OutlinesAdapter(tiers=(3,))
    from dspy.adapters.json_adapter import JSONAdapter

    return JSONAdapter(use_native_function_calling=False)  # tool calls, too, are read from the text here


def check_types(signature: Any, values: Mapping[str, Any], completion: str) -> None:
    """Refuse values that are not of the types that the outputs have, whoever made them. Raises `AdapterParseError`."""
    for name, field in signature.output_fields.items():
        if values[name] is None and field.default is None:
            continue
        try:
            kind: TypeAdapter[Any] = TypeAdapter(field.annotation)
        except (PydanticSchemaGenerationError, PydanticUserError):  # nothing to check it with
            continue
        try:
            kind.validate_python(values[name], strict=True)
        except ValidationError as problem:
            wrong = [str(one["msg"]) for one in problem.errors() if one["type"] not in _BY_VALIDATORS]
            if wrong:
                why = f"`{name}`: {'; '.join(wrong)}"
                raise AdapterParseError("TwoStepAdapter", signature, completion, why) from problem
        except Exception:  # a validator again: it may raise anything for what is no text any more
            continue


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


def _types(signature: Any) -> dict[str, tuple[Any, str]]:
    return {name: (kind, bounds) for name, kind, bounds, _ in outputs_of(signature)}


def _has_target(signature: Any) -> bool:
    try:
        target_of_signature(signature)
    except NoTarget:
        return False
    return True
