"""`RLM_OTEL=1`: runs of the command line as OpenTelemetry spans."""

from __future__ import annotations

import os

from ..events import Observer, ignore
from .exit_codes import EnvironmentProblem

_OFF = ("", "0", "off", "no", "false")


def telemetry() -> Observer:
    """Makes spans of what it is told, if the environment says so; else it looks away."""
    if os.environ.get("RLM_OTEL", "").strip().lower() in _OFF:
        return ignore
    from ..telemetry import TelemetryMissing, spans

    try:
        return spans()
    except TelemetryMissing as error:
        raise EnvironmentProblem(f"RLM_OTEL is set, but {error}") from None
