"""`python -m sandbox doctor`: which isolation runs here, what each layer's self-test found, what would better it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .errors import SandboxError
from .isolation.probe import Report, probe

_TIERS = {
    "namespaces": "namespaces, private root, Landlock, seccomp, rlimits: the strongest there is",
    "landlock": "Landlock, seccomp and rlimits, without a root of its own",
    "seatbelt": "the macOS sandbox",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str
    advice: str = ""


def examine() -> tuple[Report, tuple[Check, ...]]:
    """Try everything."""
    report = probe()
    return report, (_a_session(report), _data_libraries(), _kernelspec(), _name_clash())


def main(as_json: bool = False) -> int:
    """Print what was found. The exit code is 0 when code can be run safely here, 4 when it cannot."""
    report, checks = examine()
    if as_json:
        print(json.dumps(as_dict(report, checks), indent=2))  # noqa: T201
    else:
        render(Console(), report, checks)
    return 0 if report.tier is not None and checks[0].ok else 4


def as_dict(report: Report, checks: tuple[Check, ...]) -> dict[str, Any]:
    """Return the findings as plain values."""
    return {
        "tier": report.tier,
        "layers": [asdict(finding) for finding in report.findings],
        "checks": [asdict(check) for check in checks],
    }


def render(console: Console, report: Report, checks: tuple[Check, ...]) -> None:
    """Return the findings for a person."""
    who = "root" if os.geteuid() == 0 else "an ordinary user"
    console.print(f"Python {platform.python_version()} on {platform.system()} {platform.release()}, as {who}\n")
    if report.tier is None:
        console.print(
            "[bold red]No isolation works here.[/] Sessions are refused, unless isolation='none' is asked for.\n"
        )
    else:
        console.print(f"Isolation: [bold green]{report.tier}[/]  ({_TIERS[report.tier]})\n")
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in report.findings:
        _row(table, finding.works, finding.layer, finding.detail, finding.advice)
    table.add_row("", "", "")
    for check in checks:
        _row(table, check.ok, check.name, check.detail, check.advice)
    console.print(table)


def _row(table: Table, ok: bool, name: str, detail: str, advice: str) -> None:
    mark = "[green]yes[/]" if ok else "[red]no[/]"
    more = f"\n[dim]To change that: {escape(advice)}[/]" if advice else ""
    table.add_row(mark, name, escape(detail) + more)


def _a_session(report: Report) -> Check:
    """The whole way: a kernel, a cell, a host call, an end."""
    from .session import Session

    name = "a session"
    if report.tier is None:
        return Check(name, False, "not tried: no isolation works")
    try:
        began = time.perf_counter()
        with Session(inputs={"n": 20}, functions={"double": lambda n: 2 * n}) as session:
            first = time.perf_counter()
            result = session.run("double(n) + 2")
            again = time.perf_counter()
            session.run("1")
            done = time.perf_counter()
    except SandboxError as error:
        return Check(name, False, str(error), "report this, with the output of this command")
    if result.value != 42:
        return Check(name, False, f"answered {result.value_repr!r}: {result.error}")
    took = f"first start {(first - began) * 1e3:.0f} ms, then a cell {(done - again) * 1e3:.1f} ms"
    return Check(name, True, took)


def _data_libraries() -> Check:
    found = {}
    for library in ("numpy", "pandas"):
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    if len(found) == 2:
        return Check("data libraries", True, ", ".join(f"{name} {version}" for name, version in found.items()))
    missing = sorted({"numpy", "pandas"} - set(found))
    advice = "pip install 'rlm-kernel[data]', if the code you run should have them"
    return Check("data libraries", False, f"not installed: {', '.join(missing)}", advice)


def _kernelspec() -> Check:
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        spec = KernelSpecManager().get_kernel_spec("rlm-sandbox")
    except NoSuchKernel:
        advice = "install rlm-kernel into the environment that Jupyter runs in"
        return Check("Jupyter", False, "no kernelspec rlm-sandbox", advice)
    if importlib.util.find_spec("IPython") is None:
        return Check("Jupyter", False, "notebooks need IPython", "pip install 'rlm-kernel[notebooks]'")
    return Check("Jupyter", True, f"kernelspec {spec.display_name!r}")


def _name_clash() -> Check:
    """Another distribution, `rlms`, installs a top-level `rlm` too; whichever came last is what `import rlm` gives."""
    owners = sorted(set(importlib.metadata.packages_distributions().get("rlm", [])))
    others = [owner for owner in owners if owner != "rlm-kernel"]
    if others:
        advice = f"pip uninstall {' '.join(others)}, then pip install --force-reinstall rlm-kernel"
        return Check("the name rlm", False, f"also installed by {', '.join(others)}: one overwrites the other", advice)
    where = _import_place()
    if where is not None and not where.startswith(_home()):
        advice = "remove that directory from sys.path, or start Python elsewhere"
        return Check("the name rlm", False, f"`import rlm` finds another package: {where}", advice)
    return Check("the name rlm", True, "only ours")


def _import_place() -> str | None:
    spec = importlib.util.find_spec("rlm")
    return spec.origin if spec is not None else None


def _home() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
