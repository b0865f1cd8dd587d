"""Runs as OpenTelemetry spans, with the names of the GenAI conventions. Needs the extra `otel`.

rlm.Predict(signature, observe=rlm.telemetry.spans())
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from ..errors import RlmError

if TYPE_CHECKING:
    from .observer import Spans

__all__ = ["TelemetryMissing", "spans"]

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURED = ("1", "true", "span_only", "span_and_event")


class TelemetryMissing(RlmError, ImportError):
    """OpenTelemetry is not installed; the message says how to install it."""


def spans(tracer_provider: Any = None, *, content: bool | None = None) -> Spans:
    """Return an observer that makes a span of every run, model call, cell and host call.

    Without a `tracer_provider` it is the one that the program has set; if there is none, one that sends spans by
    OTLP/HTTP to where `OTEL_EXPORTER_OTLP_ENDPOINT` says. Prompts, code and answers are in them with `content`, or if
    `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` asks for that.
    """
    try:
        from opentelemetry import trace

        from .observer import Spans

        provider = tracer_provider or trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider):  # the placeholder of a provider that was not set
            provider = _own_provider()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise TelemetryMissing(
            f"{error.name} is not installed. Install it with: pip install 'rlm-kernel[otel]'"
        ) from None
    if content is None:
        content = os.environ.get(CAPTURE, "").strip().lower() in _CAPTURED
    return Spans(provider, content=content)


@functools.lru_cache(maxsize=1)
def _own_provider() -> Any:
    """Return a provider that exports in batches, and the rest at exit."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create()
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "rlm"}))
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
