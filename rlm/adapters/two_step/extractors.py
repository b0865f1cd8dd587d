"""Extractors, the predictors of the second step (`text -> <outputs>`): their signatures, examples and checks."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from dspy.predict.predict import Predict
from dspy.signatures.field import InputField
from dspy.signatures.signature import make_signature
from dspy.utils.exceptions import AdapterParseError
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from ...dspy_bridge import calling_predictor
from ...models.profile import profile_of
from ..output_spec import NoTarget, target_of_signature
from .prompt import in_words, text

Outputs = tuple[tuple[str, Any, str, str], ...]
"""The name, type, bounds and description of each output."""

Extractors = tuple[tuple[Outputs, Any], ...]
"""Extractors, each with its outputs."""

Pairs = tuple[tuple[Any, Any], ...]
"""Predictors, each with its own extractor."""

# A type's own validators ran when the text was parsed; they may not accept a finished value.
_BY_VALIDATORS = ("value_error", "assertion_error")


def extractor_signature(signature: Any) -> Any:
    """Return the signature `text -> <outputs>`, with the types and descriptions of the outputs."""
    outputs = {name: (field.annotation, field) for name, field in signature.output_fields.items()}
    named = ", ".join(f"`{name}`" for name in outputs)
    text_field = next(name for name in ("text", "answer_text", "text_of_the_answer") if name not in outputs)
    fields = {text_field: (str, InputField(desc="the answer to extract from")), **outputs}
    return make_signature(fields, text("extract").substitute(fields=named), "Extract")


@functools.lru_cache(maxsize=512)
def _cached_signature(signature: Any) -> Any:
    """Return the signature of an extractor for one call: cached, so that its schema is compiled once."""
    return extractor_signature(signature)


def outputs_of(signature: Any) -> Outputs:
    """Return what an extractor is chosen by: the names, types and descriptions of the outputs.

    Types are compared by identity: two classes may have one name.
    """
    return tuple(
        (name, field.annotation, str(field.metadata), str((field.json_schema_extra or {}).get("desc", "")))
        for name, field in signature.output_fields.items()
    )


def extractor_for(signature: Any, pairs: Pairs, extractors: Extractors) -> Any:
    """Return the extractor of the calling predictor, else the registered one for these outputs, else a new one."""
    extractor = _of_caller(signature, pairs) or registered(signature, extractors)
    return extractor or Predict(_cached_signature(signature))


def registered(signature: Any, extractors: Extractors) -> Any:
    """Return the registered extractor for these outputs, or None."""
    wanted = outputs_of(signature)
    return next((extractor for outputs, extractor in extractors if outputs == wanted), None)


def _of_caller(signature: Any, pairs: Pairs) -> Any:
    """Return the extractor of the predictor that is calling; None if it has none for these outputs."""
    caller = calling_predictor()
    if caller is None or not pairs:
        return None
    same = [extractor for predictor, extractor in pairs if predictor is caller]
    # dspy.BestOfN and dspy.Refine call copies of the predictors: a copy keeps the `stage` that dspy gave to the first.
    stage = getattr(caller, "stage", None)
    like = [extractor for predictor, extractor in pairs if stage and getattr(predictor, "stage", None) == stage]
    wanted = _types(signature)
    return next((extractor for extractor in (*same, *like) if _types(extractor.signature) == wanted), None)


def default_adapter(lm: Any, signature: Any) -> Any:
    """Return the adapter of an extractor that has none: JSON, constrained where the model can be constrained."""
    if profile_of(lm).constrains and _has_target(signature):
        from ..outlines_adapter import OutlinesAdapter

        return OutlinesAdapter(tiers=(3,))
    from dspy.adapters.json_adapter import JSONAdapter

    return JSONAdapter(use_native_function_calling=False)  # tool calls are read from the text here


def check_types(signature: Any, values: Mapping[str, Any], completion: str) -> None:
    """Check values against the types of the outputs, whichever adapter returned them. Raises `AdapterParseError`."""
    for name, field in signature.output_fields.items():
        if values[name] is None and field.default is None:
            continue
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(field.annotation)
        except (PydanticSchemaGenerationError, PydanticUserError):  # nothing to check it with
            continue
        try:
            adapter.validate_python(values[name], strict=True)
        except ValidationError as problem:
            details = [str(detail["msg"]) for detail in problem.errors() if detail["type"] not in _BY_VALIDATORS]
            if details:
                reason = f"`{name}`: {'; '.join(details)}"
                raise AdapterParseError("TwoStepAdapter", signature, completion, reason) from problem
        except Exception:  # the type's own validator, which may raise anything for a value that is no text
            continue


def without(signature: Any, outputs: Mapping[str, Any]) -> Any:
    """Return the signature without outputs that are known; None where nothing is left to extract."""
    remaining = [name for name in signature.output_fields if name not in outputs]
    for name in outputs:
        if name in signature.output_fields:
            signature = signature.delete(name)
    return signature if remaining else None


def examples(text_field: str, signature: Any, demos: list[Any]) -> list[dict[str, Any]]:
    """Return examples for the extractor out of the main model's: an answer in words, and the values in it."""
    names = list(signature.output_fields)
    complete = [demo for demo in demos if all(demo.get(name) is not None for name in names)]
    return [{text_field: in_words(signature, demo), **{name: demo[name] for name in names}} for demo in complete]


def _types(signature: Any) -> dict[str, tuple[Any, str]]:
    return {name: (annotation, bounds) for name, annotation, bounds, _ in outputs_of(signature)}


def _has_target(signature: Any) -> bool:
    try:
        target_of_signature(signature)
    except NoTarget:
        return False
    return True
