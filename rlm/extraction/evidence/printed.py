"""What the code of a cell printed, without the words of the runtime: those are no evidence."""

from __future__ import annotations

import re

from ...history import REPLHistoryEntry

# Places in code, which printed tracebacks and warnings name, and what is left of the budget.
_RUNTIME = re.compile(
    r"""File\ "[^"\n]{1,500}",\ line\ \d+ | <cell\ \d+>(?::\d+)? | \{['"]llm_calls['"]:[^{}\n]{0,200}\}""", re.VERBOSE
)


def printed(entry: REPLHistoryEntry) -> str:
    """Return what the code printed, with the words of the runtime blanked: places in it are places in the output."""
    return _RUNTIME.sub(lambda match: " " * len(match[0]), entry.printed)
