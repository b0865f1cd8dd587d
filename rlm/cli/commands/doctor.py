"""`rlm doctor`: what works on this machine: the checks of the sandbox, and those of models."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from .. import exit_codes, preflight

if TYPE_CHECKING:
    from sandbox.doctor import Check


@click.command("doctor", short_help="Check what works on this machine, and how to get the rest.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@click.pass_context
def command(ctx: click.Context, /, as_json: bool) -> None:
    """Check which isolation works here and whether models can be asked, and print how to get what is missing.

    Exit code 4: code cannot be run safely here. Keys are named, never shown.

    \b
    Example:
      rlm doctor
      rlm doctor --json
    """
    from rich.console import Console

    from sandbox import doctor

    report, checks = doctor.examine()
    works = report.tier is not None and checks[0].ok
    checks = (*checks, *_for_models(), *_for_extras())
    if as_json:
        click.echo(json.dumps(doctor.as_dict(report, checks), indent=2))
    else:
        doctor.render(Console(file=sys.stdout), report, checks)
    ctx.exit(exit_codes.ANSWERED if works else exit_codes.ENVIRONMENT)


def _for_models() -> tuple[Check, ...]:
    import importlib.metadata

    from sandbox.doctor import Check

    try:
        dspy = Check("dspy", True, f"dspy {importlib.metadata.version('dspy')}")
    except importlib.metadata.PackageNotFoundError:
        dspy = Check("dspy", False, "not installed: no model can be asked", exit_codes.missing_package_advice())
    names = preflight.keys_set()
    if names:
        keys = Check("API keys", True, f"set: {', '.join(names)} (values are not read here)")
    else:
        advice = "export OPENAI_API_KEY=..., or the variable of your provider; local and scripted models need none"
        keys = Check("API keys", False, "no variable that looks like a key is set", advice)
    return dspy, keys, *_for_local_models()


_EXTRAS = (
    ("the page", "rlm view", "viewer", ("starlette", "uvicorn")),
    ("charts", "rlm.traces.plots", "plots", ("altair", "vl_convert")),
    ("telemetry", "runs as spans of OpenTelemetry", "otel", ("opentelemetry.sdk",)),
    ("Ray", "rlm batch --engine ray", "ray", ("ray",)),
    ("MCP", "tools of MCP servers", "mcp", ("mcp",)),
)
"""What needs packages of its own: what it is called, what it is for, the extra, and its modules."""


def _for_extras() -> Iterator[Check]:
    from sandbox.doctor import Check

    from ...models.local.backend_choice import is_installed

    for name, purpose, extra, modules in _EXTRAS:
        missing = [module for module in modules if not is_installed(module)]
        if missing:
            yield Check(name, False, f"not installed ({purpose})", f"pip install 'rlm-kernel[{extra}]'")
        else:
            yield Check(name, True, purpose)


def _for_local_models() -> tuple[Check, ...]:
    from sandbox.doctor import Check

    from ...models.local.embedded import embedded_gguf
    from ...models.local.gguf import WeightsError
    from ...models.local.library import backends, choose, examine, free_memory

    installed = [backend for backend in backends() if backend.installed]
    if installed:
        names = ", ".join(f"{backend.package} {backend.version}" for backend in installed)
        local = Check("local models", True, f"run with {names}")
    else:
        extra = "mlx" if sys.platform == "darwin" else "llamacpp"
        local = Check("local models", False, "no backend for them is installed", f"pip install 'rlm-kernel[{extra}]'")
    try:
        path = embedded_gguf()
        backend, problem = choose(examine(path))
        embedded = Check(
            "embedded model", backend is not None, f"{path.name}, runs with {backend}" if backend else problem or ""
        )
    except WeightsError as error:
        what, _, advice = str(error).partition("; ")
        embedded = Check("embedded model", False, what, advice)
    from ...units import size_text

    free = free_memory()
    if free is None:
        return local, embedded
    room = Check("memory", True, f"{size_text(free)} free: models up to about {_weights_text(free)} at 4 bits a weight")
    return local, embedded, room


def _weights_text(free: int) -> str:
    """Return how many weights fit: 0.6 bytes each with their scales, with a fifth of the memory left over."""
    weights = max(0.0, free * 0.8 - 0.5e9) / 0.6 / 1e9
    return f"{weights:.0f} billion weights" if weights >= 2 else f"{weights:.1f} billion weights"
