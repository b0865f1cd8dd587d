"""Providers in model names such as `openai/gpt-5-mini`, and the environment variables that hold their keys."""

from __future__ import annotations

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
