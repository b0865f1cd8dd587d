"""The profile of a model: what it can do, how it is reached, and the secrets in its settings, which are redacted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..redaction import Redactor, is_secret_name, protect

if TYPE_CHECKING:
    from .local.types import LocalModel
    from .rate_limit.bucket import Limit


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model, in US dollars for a million tokens."""

    input: float
    output: float

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        """Return the cost of a call."""
        return (self.input * tokens_in + self.output * tokens_out) / 1e6


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """What a model can do. A `dspy.LM` carries it as its attribute `profile`; most models have the default."""

    constrains: bool = False
    """Whether it takes `_outlines_constraint=<type>`, and writes nothing else."""

    local: LocalModel | None = None
    """The weights, for a model in this process. Two models with the same ones share memory and cached prompts."""

    engine: Any = None
    """An asynchronous engine of this process, which can be called without dspy."""

    small: bool = False
    """Whether it is a small local model, which does better with short prompts and a constrained answer."""

    context_window: int | None = None
    """Tokens of prompt and answer together, where that is known."""

    key_env: str | None = None
    """The environment variable with the API key, where the task file names one."""

    rate_limit: Limit | None = None
    """Requests and tokens per minute, where the task file sets them."""

    price: Price | None = None
    """The price, where the task file sets one; otherwise dspy's price list has it, or nobody knows it."""

    def cost(self, tokens_in: int, tokens_out: int, known: float | None) -> float | None:
        """Return the cost of a call; `known` is what dspy's price list says."""
        return known if self.price is None else self.price.cost(tokens_in, tokens_out)

    def __deepcopy__(self, memo: dict[int, Any]) -> ModelProfile:
        """Return the profile itself: copies of a model share its weights and its engine."""
        return self


_DEFAULT = ModelProfile()


def profile_of(lm: Any) -> ModelProfile:
    """Return the profile of a model; the default for a model that carries none."""
    profile = getattr(lm, "profile", None)
    return profile if isinstance(profile, ModelProfile) else _DEFAULT


NO_KEY = "no-key-is-needed"
"""The key of a self-hosted server without one: these often need none, but their clients insist on one."""


def name_of(lm: Any) -> str:
    """Return the name of a model, as in `provider/name`; that of its class where it has none."""
    return str(getattr(lm, "model", None) or type(lm).__name__)


def settings_of(lm: Any) -> Mapping[str, Any]:
    """Return the settings of a model: those of `dspy.LM(..., temperature=0)`, its address and key among them."""
    return getattr(lm, "kwargs", None) or {}


def is_remote(lm: Any) -> bool:
    """Return whether a model is asked over the network: it names an engine of dspy, and has none of its own."""
    return profile_of(lm).engine is None and isinstance(getattr(lm, "engine", None), str)


KEY_VARIABLES: dict[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "together_ai": ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY"),
    "fireworks_ai": ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"),
    "xai": ("XAI_API_KEY",),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "perplexity": ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
}
"""Any one of the variables is enough."""

OTHER_CREDENTIALS = {
    "bedrock": "bedrock takes credentials of AWS: AWS_ACCESS_KEY_ID and others, or its own files",
    "sagemaker": "sagemaker takes credentials of AWS: AWS_ACCESS_KEY_ID and others, or its own files",
    "vertex_ai": "vertex_ai takes the default credentials of Google Cloud (GOOGLE_APPLICATION_CREDENTIALS)",
    "azure": "azure takes a key (`api_key_env: AZURE_API_KEY`), with `api_base:` and `api_version:`",
}
"""Providers that take more than a key, or something else: what they take."""

PROVIDERS = (
    *KEY_VARIABLES,
    *("ai21", "azure", "azure_ai", "baseten", "bedrock", "cerebras", "cloudflare", "cohere_chat", "dashscope"),
    *("databricks", "deepinfra", "featherless_ai", "friendliai", "github", "github_copilot", "hosted_vllm"),
    *("huggingface", "hyperbolic", "litellm_proxy", "llamafile", "lm_studio", "meta_llama", "moonshot", "nebius"),
    *("novita", "nscale", "nvidia_nim", "oci", "ollama", "ollama_chat", "replicate", "sagemaker", "sambanova"),
    *("snowflake", "text-completion-openai", "vertex_ai", "vllm", "volcengine", "watsonx", "xinference", "zai"),
)
"""Providers that are commonly used. There are others: a name that is not here may be right."""


def provider_of(model: str) -> str | None:
    """Return the provider of a model name; None if it names none."""
    provider, slash, _ = model.partition("/")
    return provider if slash else None


def key_variables(lm: Any, named: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the environment variables that may hold the API key; `named` are those that an error names."""
    if key_env := profile_of(lm).key_env:
        return (key_env,)
    provider = provider_of(name_of(lm)) or "openai"
    return named or KEY_VARIABLES.get(provider) or (f"{provider.upper()}_API_KEY",)


def protect_keys(lm: Any) -> None:
    """Redact the secrets of a model from now on in this process."""
    protect(*_secrets(lm))


def without_keys(text: str, lm: Any) -> str:
    """Return a text without secrets: a server may repeat what it was sent."""
    protect_keys(lm)
    return Redactor().text(text)


def holds_key(text: str, lm: Any) -> bool:
    """Return whether a text contains a secret of the model."""
    protect_keys(lm)
    return Redactor({}).input(text) != text


def _secrets(lm: Any) -> Iterator[str]:
    settings = settings_of(lm)
    headers = {**(settings.get("headers") or {}), **(settings.get("extra_headers") or {})}
    values = [settings.get("api_key"), *(os.environ.get(name) for name in key_variables(lm))]
    values += [value for name, value in headers.items() if _is_secret_header(name)]
    base = settings.get("api_base") or settings.get("base_url")
    if isinstance(base, str):
        values.append(urlsplit(base).password)
    for value in values:
        if isinstance(value, str):
            yield value.strip().removeprefix("Bearer ")


def _is_secret_header(name: Any) -> bool:
    return str(name).lower() == "authorization" or is_secret_name(str(name).replace("-", "_"))
