"""`RLM_OTEL=1`: OpenTelemetry spans for runs of the command line."""

from __future__ import annotations

import os

from ..events import Observer, ignore
from .exit_codes import EnvironmentProblem

_OFF = ("", "0", "off", "no", "false")


def telemetry() -> Observer:
    """Return an observer that creates spans, if the environment asks for it, or one that ignores events."""
    if os.environ.get("RLM_OTEL", "").strip().lower() in _OFF:
        return ignore
    from ..telemetry import TelemetryMissing, spans

    try:
        return spans()
    except TelemetryMissing as error:
        raise EnvironmentProblem(f"RLM_OTEL is set, but {error}") from None
