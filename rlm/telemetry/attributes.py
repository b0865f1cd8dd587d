"""What spans say: attributes with the names of the GenAI conventions, and `rlm.` for what these have no name for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from ..events import ModelAnswered, ModelAsked, RunEnded, RunStarted
from ..models.providers import provider_of
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
    """The provider and the name of a model that dspy knows as `provider/name`."""
    provider = provider_of(str(name))
    if provider is None:
        return {"gen_ai.provider.name": "unknown", "gen_ai.request.model": str(name)}
    model_name = str(name).removeprefix(f"{provider}/")
    return {"gen_ai.provider.name": _PROVIDERS.get(provider, provider), "gen_ai.request.model": model_name}


def run(event: RunStarted) -> Attributes:
    """What is known of a run when it starts. A signature without a name is called like its task file, or not at all."""
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
    """What is known of a run when it has ended."""
    usage = event.result.usage
    known = {
        "gen_ai.usage.input_tokens": usage.tokens_in,
        "gen_ai.usage.output_tokens": usage.tokens_out,
        "rlm.cost_usd": usage.cost_usd,
        "rlm.llm_calls": usage.llm_calls,
        "rlm.ending": event.ending.lower(),
        "rlm.confidence": event.result.confidence,
    }
    return present(known)


def asked(event: ModelAsked) -> Attributes:
    """What is known of a model call when it starts."""
    known = {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": event.run_id,
        **model(event.model),
        "rlm.role": event.role,
        "rlm.iteration": event.iteration,
    }
    return present(known)


def answered(event: ModelAnswered) -> Attributes:
    """What is known of a model call when there is an answer."""
    known = {
        "gen_ai.usage.input_tokens": event.tokens_in,
        "gen_ai.usage.output_tokens": event.tokens_out,
        "gen_ai.response.finish_reasons": [finish_reason(event)],
        "rlm.cost_usd": event.cost_usd,
    }
    return present(known)


def tool(name: str, call: str, iteration: Any) -> Attributes:
    """What is known of a cell or a host call when it starts."""
    known = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call,
        "rlm.iteration": iteration,
    }
    return present(known)


def error_type(name: Any) -> str:
    """A name for a kind of error: code from a model may call its exceptions what it likes, but not at any length."""
    return encodable(str(name)) if name and len(str(name)) <= 100 else OTHER


def finish_reason(event: ModelAnswered) -> str:
    """Why a model stopped writing."""
    return "length" if event.truncated else "stop"


def messages(turns: Iterable[tuple[str, str]], **more: str) -> str:
    """Turns of a conversation as JSON text, in the form of the conventions."""
    return to_json([{"role": role, "parts": _parts(text), **more} for role, text in turns])


def instructions(text: str) -> str:
    """A system prompt as JSON text, in the form of the conventions."""
    return to_json(_parts(text))


def to_json(value: Any) -> str:
    """A value as JSON text that can be sent."""
    return encodable(json.dumps(value, ensure_ascii=False, default=str))


def present(known: Attributes) -> Attributes:
    """Only what is known, as it can be sent."""
    there = {name: value for name, value in known.items() if value is not None and value != ""}
    return {name: encodable(value) if isinstance(value, str) else value for name, value in there.items()}


def _parts(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "content": cut_middle(text, MAX_CHARS)}]
