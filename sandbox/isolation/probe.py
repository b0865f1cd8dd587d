"""Tries each layer for real, in child processes that are thrown away, and chooses the tier that this machine can hold.

A layer works when it has been seen to refuse something, not when the system says that it has it. The tests themselves
are in `selftest.py`; here they are started, and their findings are turned into a choice and into advice.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from sandbox.errors import IsolationUnavailable
from sandbox.isolation import seatbelt
from sandbox.isolation.confinement import TIERS, default_read_only

_TIMEOUT = 20.0

# A tier holds without these; they stand behind the others where they can.
_OPTIONAL = {"namespaces": frozenset({"cgroup", "landlock"}), "landlock": frozenset({"cgroup"})}

_ADVICE = {
    "namespaces": (
        "as an ordinary user, allow user namespaces: `sysctl kernel.unprivileged_userns_clone=1` on old Debian, "
        "`sysctl kernel.apparmor_restrict_unprivileged_userns=0` or an AppArmor profile with `userns,` on Ubuntu, "
        "`sysctl user.max_user_namespaces=10000` on RHEL. In Docker: `--security-opt seccomp=unconfined "
        "--security-opt apparmor=unconfined`, and `--cap-add SYS_ADMIN` if the container runs as root"
    ),
    "landlock": (
        "use Linux 5.13 or newer built with CONFIG_SECURITY_LANDLOCK and started with `landlock` in its `lsm=` list; "
        "in Docker, a seccomp profile that allows landlock_* (Docker 20.10.14 or newer)"
    ),
    "seccomp": (
        "use a kernel with CONFIG_SECCOMP_FILTER on x86_64 or aarch64. Emulated containers (qemu-user) and gVisor "
        "cannot filter"
    ),
    "rlimits": "use a system that enforces RLIMIT_AS: some emulators and gVisor do not",
    "user": "as root, keep CAP_SETUID, CAP_SETGID and CAP_SETPCAP (`docker run --cap-add SETUID ...`), or be no root",
    "cgroup": (
        "optional. Run as root, or in a delegated subtree (`systemd-run --user --scope -p Delegate=yes ...`), with the "
        "memory and pids controllers on"
    ),
    "seatbelt": "use macOS with /usr/bin/sandbox-exec, outside of another sandbox",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of trying one layer."""

    layer: str
    works: bool
    detail: str
    """What was seen: what was refused, or what went wrong."""

    advice: str
    """What to install or allow to get it; empty when it works."""


@dataclass(frozen=True, slots=True)
class Report:
    """What this machine can do."""

    findings: tuple[Finding, ...]

    tier: str | None
    """The best one that works, or None."""

    def works(self, layer: str) -> bool:
        """Return whether the layer has been seen to work."""
        return any(finding.works for finding in self.findings if finding.layer == layer)


@dataclass(frozen=True, slots=True)
class Choice:
    """A tier, and which of its layers work here."""

    tier: str
    layers: frozenset[str]


@functools.cache
def probe() -> Report:
    """Try everything once; the answer is kept for the life of this process."""
    match platform.system():
        case "Linux":
            findings = _linux()
        case "Darwin":
            findings = (_seatbelt(),)
        case other:
            return Report((_finding("namespaces", False, f"there is no isolation for {other}"),), None)
    working = frozenset(finding.layer for finding in findings if finding.works)
    return Report(findings, best_tier(working))


def best_tier(working: frozenset[str]) -> str | None:
    """Return the strongest tier whose every needed layer works."""
    if "seatbelt" in working:
        return "seatbelt"
    for tier, optional in _OPTIONAL.items():
        if TIERS[tier] - optional <= working:
            return tier
    return None


def choose_tier(requested: str = "auto") -> Choice:
    """Return the tier to use: the best for `"auto"`, or the named one if it works; `"none"` by its name only."""
    if requested == "none":
        return Choice("none", TIERS["none"])
    if requested != "auto" and requested not in TIERS:
        raise ValueError(f"no such isolation: {requested!r}; choose auto, {', '.join(TIERS)}")
    report = probe()
    working = frozenset(finding.layer for finding in report.findings if finding.works)
    tier = report.tier if requested == "auto" else requested
    if tier is None:
        raise IsolationUnavailable(_explain("No isolation works on this machine.", report))
    needed = frozenset({"seatbelt"}) if tier == "seatbelt" else TIERS[tier] - _OPTIONAL[tier]
    missing = needed - working
    if missing:
        raise IsolationUnavailable(_explain(f"The isolation {tier!r} does not work on this machine.", report, missing))
    return Choice(tier, TIERS[tier] if tier == "seatbelt" else TIERS[tier] & working)


def choose_layers(requested: str = "auto") -> frozenset[str]:
    """Return the layers of the tier that `choose_tier` chooses."""
    return choose_tier(requested).layers


def _explain(headline: str, report: Report, missing: frozenset[str] | None = None) -> str:
    lines = [headline]
    for finding in report.findings:
        if not finding.works and (missing is None or finding.layer in missing):
            lines.append(f"- {finding.layer}: {finding.detail}. To get it: {finding.advice}.")
    lines.append('`python -m sandbox doctor` says more. isolation="none" runs the code without a boundary.')
    return "\n".join(lines)


def _linux() -> tuple[Finding, ...]:
    layers = ("namespaces", "landlock", "seccomp", "rlimits", "user", "cgroup")
    seen, failure = _run_selftests()
    findings = []
    for layer in layers:
        works, detail = seen.get(layer, (False, failure or "its test did not end"))
        findings.append(_finding(layer, works, detail))
    return tuple(findings)


def _run_selftests() -> tuple[dict[str, tuple[bool, str]], str]:
    """Return what the tests saw, by layer; and what went wrong with running them."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # A fresh interpreter: forking this one could copy a lock that another thread holds. The package's own __init__ is
    # passed over because it imports much that is not needed here.
    code = (
        "import sys, types; package = types.ModuleType('sandbox'); "
        f"package.__path__ = [{package!r}]; sys.modules['sandbox'] = package; "
        "from sandbox.isolation import selftest; selftest.main()"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code],
            input=json.dumps({"read_only": default_read_only()}),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {}, f"the tests could not be run: {error}"
    seen = {}
    for line in done.stdout.splitlines():
        layer, works, detail = json.loads(line)
        seen[layer] = (bool(works), str(detail))
    return seen, done.stderr.strip()[-300:]


def _seatbelt() -> Finding:
    """Run a program under the profile that must be able to write in one place and nowhere else."""
    if not os.path.exists(seatbelt.SANDBOX_EXEC):
        return _finding("seatbelt", False, f"{seatbelt.SANDBOX_EXEC} is missing")
    with tempfile.TemporaryDirectory() as inside, tempfile.TemporaryDirectory() as outside:
        code = (
            "import socket, sys\n"
            "open(sys.argv[1] + '/file', 'w').close()\n"
            "for attempt in (lambda: open(sys.argv[2] + '/file', 'w'), lambda: open('/etc/passwd'),\n"
            "        lambda: socket.create_connection(('127.0.0.1', 9), 1)):\n"
            "    try: attempt()\n"
            "    except PermissionError: continue\n"
            "    sys.exit('something was not refused')\n"
            "print('refused')\n"
        )
        argv = [sys.executable, "-I", "-S", "-c", code, inside, outside]
        try:
            done = subprocess.run(
                seatbelt.command(argv, default_read_only(), inside),
                capture_output=True,
                text=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return _finding("seatbelt", False, str(error))
    if done.stdout.strip() != "refused":
        return _finding("seatbelt", False, done.stderr.strip()[-300:] or "the program under it printed nothing")
    return _finding("seatbelt", True, "writing and reading outside and the network were refused")


def _finding(layer: str, works: bool, detail: str) -> Finding:
    return Finding(layer, works, detail, "" if works else _ADVICE[layer])
