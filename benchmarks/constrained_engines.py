"""The contenders of `constrained.py` on one engine: each takes a prompt, a type and a number of tokens."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm.models import OutlinesLM
from rlm.models.local.constraints import constraint_of
from rlm.models.local.types import Settings

Run = Callable[[str, Any, int], tuple[str, int | None]]
"""Prompt, type and most tokens; the text, and its tokens where they are known."""


@dataclass(frozen=True)
class Contender:
    key: str
    label: str
    run: Run
    free: str | None
    """The contender whose free generation this is measured against; None for those themselves."""

    @property
    def keeps(self) -> bool:
        """Whether prompts are kept from one request to the next."""
        return "free" in (self.key, self.free)


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def mlx(gguf: Path | None) -> tuple[str, list[Contender]]:
    """Outlines on mlx-lm and ours, on one copy of the weights, in one thread, with the same layers for the CPU."""
    import outlines

    lm = OutlinesLM(gguf, backend="mlx", context=2048)
    stock = outlines.from_mlxlm(lm.model.model, lm.model.mlx_tokenizer)

    there = lm.local.run_in_thread
    found = [
        Contender("stock-free", "free: mlx-lm, as Outlines calls it", _stock(stock, None, there), None),
        Contender("free", "free: ours, prompt kept", _ours(lm, constrained=False), None),
        Contender("ours", "ours", _ours(lm), "free"),
    ]
    backends = ["outlines_core", "llguidance", *(["xgrammar"] if has("xgrammar") else [])]
    return lm.model, found + _outlines(stock, backends, there)


def llama_server(gguf: Path | None) -> tuple[str, list[Contender]]:
    """llama.cpp's server in process: its own JSON schema, and ours."""
    from rlm.models.local.backends.llama_server import LlamaServerModel
    from rlm.models.local.embedded import embedded_gguf

    path = gguf or embedded_gguf()
    model = LlamaServerModel(path, f"llamacpp/{path.stem}", 2048)

    def native(prompt: str, output_type: Any, most: int) -> tuple[str, int | None]:
        if not hasattr(output_type, "model_json_schema"):
            return _ask_server(model, prompt, most, {"grammar": f"root ::= {output_type.pattern}"})
        return _ask_server(model, prompt, most, {"json_schema": output_type.model_json_schema()})

    def llguidance(prompt: str, output_type: Any, most: int) -> tuple[str, int | None]:
        from rlm.models.local.backends.llama_server import _grammar

        return _ask_server(model, prompt, most, {"grammar": _grammar(constraint_of(output_type))})

    new = {"cache_prompt": False}
    return model.name, [
        Contender("stock-free", "free: the server, prompt new", lambda p, t, n: _ask_server(model, p, n, new), None),
        Contender("free", "free: the server, prompt kept", lambda p, t, n: _ask_server(model, p, n, {}), None),
        Contender("gbnf", "the server's own JSON schema", native, "free"),
        Contender("llg", "the server's llguidance, our form of JSON", llguidance, "free"),
        Contender("ours", "ours, in segments", _ours_local(model), "free"),
    ]


def llama_python(gguf: Path | None) -> tuple[str, list[Contender]]:
    """Outlines on llama-cpp-python and ours, on one copy of the weights."""
    import outlines

    from rlm.models.local.backends.llama_cpp_python import llama_model
    from rlm.models.local.embedded import embedded_gguf

    path = gguf or embedded_gguf()
    model = llama_model(path, f"llama-cpp-python/{path.stem}", 2048)
    stock = outlines.from_llamacpp(model.outlines.model)

    def there(work: Callable[[], str]) -> str:
        # Both use the one cache of these weights, so each begins with an empty one.
        def afresh() -> str:
            model._loaded.model.clear()
            return work()

        return model.run_in_thread(afresh)

    found = [
        Contender("stock-free", "free: llama-cpp-python, as Outlines calls it", _stock(stock, None, there), None),
        Contender("free", "free: ours, prompt kept", _ours_local(model, constrained=False), None),
        Contender("ours", "ours", _ours_local(model), "free"),
    ]
    backends = ["outlines_core", "llguidance", *(["xgrammar"] if has("xgrammar") else [])]
    return model.name, found + _outlines(stock, backends, there)


ENGINES: dict[str, tuple[str, Callable[[Path | None], tuple[str, list[Contender]]]]] = {
    "mlx": ("mlx_lm", mlx),
    "xllamacpp": ("xllamacpp", llama_server),
    "llama-cpp-python": ("llama_cpp", llama_python),
}


def _ours(lm: Any, *, constrained: bool = True) -> Run:
    return _ours_local(lm.local, constrained=constrained)


def _ours_local(model: Any, *, constrained: bool = True) -> Run:
    def run(prompt: str, output_type: Any, most: int) -> tuple[str, int | None]:
        constraint = constraint_of(output_type) if constrained else None
        answer = model.submit((("user", prompt),), Settings(most), constraint).result()
        return answer.text, answer.output_tokens

    return run


def _stock(stock: Any, backend: str | None, there: Any) -> Run:
    def run(prompt: str, output_type: Any, most: int) -> tuple[str, int | None]:
        wanted = output_type if backend else None
        return there(lambda: stock(prompt, wanted, backend, max_tokens=most)), None

    return run


def _kept(stock: Any, backend: str, there: Any) -> Run:
    """Outlines at its best: the generator is made once a type and kept."""
    import outlines

    generators: dict[str, Any] = {}

    def run(prompt: str, output_type: Any, most: int) -> tuple[str, int | None]:
        name = str(output_type)
        if name not in generators:
            generators[name] = outlines.Generator(stock, output_type, backend)
        return there(lambda: generators[name](prompt, max_tokens=most)), None

    return run


def _outlines(stock: Any, backends: list[str], there: Any) -> list[Contender]:
    found = []
    for name in backends:
        found.append(Contender(name, f"Outlines, {name}, as shipped", _stock(stock, name, there), "stock-free"))
        found.append(Contender(f"{name}-kept", f"Outlines, {name}, kept", _kept(stock, name, there), "stock-free"))
    return found


def _ask_server(model: Any, prompt: str, most: int, options: dict[str, Any]) -> tuple[str, int | None]:
    from rlm.models.local.backends.llama_server import _options

    tokens = model.tokens(model._render((("user", prompt),)))
    answer = model._complete({**_options(Settings(most)), **options, "prompt": tokens, "max_tokens": most}, None)
    return answer["choices"][0]["text"], answer["timings"]["predicted_n"]
