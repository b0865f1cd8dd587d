"""A stream listener for fields of an `OutlinesAdapter`; dspy's own knows adapters by the names of their classes."""

from __future__ import annotations

from typing import Any

from dspy.streaming.streaming_listener import StreamListener as DspyStreamListener


class StreamListener(DspyStreamListener):  # type: ignore[misc]
    """dspy's listener, for answers in chat markers (tier 1). What it has emitted is never requested again."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.adapter_identifiers["OutlinesAdapter"] = self.adapter_identifiers["ChatAdapter"]
