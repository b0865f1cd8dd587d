"""Attributes of spans: names of the GenAI conventions, and `rlm.` names where these have none."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from ..events import ModelAnswered, ModelAsked, RunEnded, RunStarted
from ..models.profile import provider_of
from ..text import cut_middle, encodable

MAX_CHARS = 32_000
"""Of a text that is longer, the beginning and the end are sent."""

OTHER = "_OTHER"
"""The conventions' word for an error that has no name."""

# How a model's name begins, where the conventions call its provider something else.
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}

Attributes = dict[str, Any]


def model(name: Any) -> Attributes:
    """Return provider and name of a model that dspy knows as `provider/name`."""
    provider = provider_of(str(name))
    if provider is None:
        return {"gen_ai.provider.name": "unknown", "gen_ai.request.model": str(name)}
    model_name = str(name).removeprefix(f"{provider}/")
    return {"gen_ai.provider.name": _PROVIDERS.get(provider, provider), "gen_ai.request.model": model_name}


def run(event: RunStarted) -> Attributes:
    """Return the attributes of a run that starts. A signature without a name is named after its task file."""
    signature, task = event.signature, event.task or {}
    name = signature.name if signature.name != "Task" else None
    name = name or (PurePath(str(task["path"])).stem if task.get("path") else None)
    known = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": name,
        "gen_ai.conversation.id": event.run_id,
        **model(event.models.main),
        "rlm.signature": f"{', '.join(signature.inputs)} -> {', '.join(signature.outputs)}",
        "rlm.depth": event.depth,
        "rlm.resumed_from": event.resumed_from,
    }
    return present(known)


def ending(event: RunEnded) -> Attributes:
    """Return the attributes of a run that has ended."""
    usage = event.result.usage
    known = {
        "gen_ai.usage.input_tokens": usage.tokens_in,
        "gen_ai.usage.output_tokens": usage.tokens_out,
        "rlm.cost_usd": usage.cost_usd,
        "rlm.llm_calls": usage.llm_calls,
        "rlm.ending": event.ending.lower(),
        "rlm.confidence": event.result.confidence,
        "rlm.trust": event.result.trust,
    }
    return present(known)


def asked(event: ModelAsked) -> Attributes:
    """Return the attributes of a model call that starts."""
    known = {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": event.run_id,
        **model(event.model),
        "rlm.role": event.role,
        "rlm.iteration": event.iteration,
    }
    return present(known)


def answered(event: ModelAnswered) -> Attributes:
    """Return the attributes of a model call that was answered."""
    known = {
        "gen_ai.usage.input_tokens": event.tokens_in,
        "gen_ai.usage.output_tokens": event.tokens_out,
        "gen_ai.response.finish_reasons": [finish_reason(event)],
        "rlm.cost_usd": event.cost_usd,
    }
    return present(known)


def tool(name: str, call: str, iteration: Any) -> Attributes:
    """Return the attributes of a cell or a host call that starts."""
    known = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call,
        "rlm.iteration": iteration,
    }
    return present(known)


def error_type(name: Any) -> str:
    """Return the name of an error. Model-written code names its exceptions freely, so long names are replaced."""
    return encodable(str(name)) if name and len(str(name)) <= 100 else OTHER


def finish_reason(event: ModelAnswered) -> str:
    """Return why a model stopped writing."""
    return "length" if event.truncated else "stop"


def messages(turns: Iterable[tuple[str, str]], **more: str) -> str:
    """Return messages as JSON text, in the form of the conventions."""
    return to_json([{"role": role, "parts": _parts(text), **more} for role, text in turns])


def instructions(text: str) -> str:
    """Return a system prompt as JSON text, in the form of the conventions."""
    return to_json(_parts(text))


def to_json(value: Any) -> str:
    """Return a value as JSON text that can be exported."""
    return encodable(json.dumps(value, ensure_ascii=False, default=str))


def present(known: Attributes) -> Attributes:
    """Return the attributes that are known, as they can be exported."""
    there = {name: value for name, value in known.items() if value is not None and value != ""}
    return {name: encodable(value) if isinstance(value, str) else value for name, value in there.items()}


def _parts(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "content": cut_middle(text, MAX_CHARS)}]
