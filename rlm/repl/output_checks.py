"""Checks of outputs: expressions that must be true. They run in a session of their own, because outputs are hostile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import sandbox

if TYPE_CHECKING:
    from .config import RunConfig

Check: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[str | None]]
"""Says what is wrong with outputs that fit the signature; None if nothing is."""

_CHECK_S = 5.0


def output_check(config: RunConfig) -> Check:
    """Return the check of a run's outputs."""

    async def check(outputs: Mapping[str, Any]) -> str | None:
        signature = config.signature
        # Defaults of what was not given are checked, too.
        whole = {**signature.outputs_to_json(signature.check_outputs(outputs)), **outputs}
        return await failed_check(config.checks, whole, config.isolation, config.pool)

    return check


async def failed_check(
    checks: tuple[str, ...], outputs: Mapping[str, Any], isolation: str, pool: sandbox.Pool | None
) -> str | None:
    """Say what is wrong by the first check that is not true; None if all are true."""
    async with sandbox.AsyncSession(inputs=dict(outputs), isolation=isolation, pool=pool) as session:
        for check in checks:
            result = await session.run(f"bool({check})", timeout=_CHECK_S)
            if result.error is not None:
                return f"The check `{check}` could not be made: {result.error}"
            if result.value != "True":
                return f"The values fit the types, but the check `{check}` is not true of them."
    return None
