"""Checks of a task: expressions over its outputs. They run in a session of their own: outputs are hostile data too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sandbox


async def failed_check(
    checks: tuple[str, ...], outputs: Mapping[str, Any], isolation: str, pool: sandbox.Pool | None
) -> str | None:
    """What the first check that is not true says about the outputs; None when all are."""
    async with sandbox.AsyncSession(inputs=dict(outputs), isolation=isolation, pool=pool) as session:
        for check in checks:
            result = await session.run(f"bool({check})", timeout=5.0)
            if result.error is not None:
                return f"The check `{check}` could not be made: {result.error}"
            if result.value != "True":
                return f"The values fit the types, but the check `{check}` is not true of them."
    return None
