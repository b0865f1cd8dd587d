"""Stand-ins for programs that ask a model: each notes how it was called, and prints what the real one prints.

The formats are those of Claude Code 2.1, Codex 0.169, Gemini CLI 0.61 and llm 0.36.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

_SCRIPT = """#!{python}
import json, os, pathlib, sys
call = {{
    "argv": sys.argv[1:], "stdin": sys.stdin.read(), "env": dict(os.environ), "folder": os.getcwd(),
    "files": {{path.name: path.read_text() for path in pathlib.Path().iterdir()}},
}}
with open({notes!r}, "a") as notes:
    notes.write(json.dumps(call) + "\\n")
{body}
"""

_BODIES = {
    "claude": """
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "four", "num_turns": 1,
    "total_cost_usd": 0.0125, "usage": {"input_tokens": 11, "cache_creation_input_tokens": 100,
    "cache_read_input_tokens": 1000, "output_tokens": 3}}))
""",
    "codex": """
print("WARNING: could not create PATH aliases", file=sys.stderr)
for event in (
    {"type": "thread.started", "thread_id": "01a1"},
    {"type": "item.completed", "item": {"id": "item_0", "type": "error", "message": "Model metadata not found."}},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": "four"}},
    {"type": "turn.completed", "usage": {"input_tokens": 11, "cached_input_tokens": 0, "output_tokens": 3}},
):
    print(json.dumps(event))
""",
    "gemini": """
print("Warning: 256-color support not detected.", file=sys.stderr)
tokens = {"input": 11, "prompt": 11, "candidates": 2, "thoughts": 1, "total": 14, "cached": 0}
print("Loaded cached credentials.")
print(json.dumps({"session_id": "x", "response": "four", "stats": {"models": {"g": {"tokens": tokens}}}}, indent=2))
""",
    "llm": """
print("four")
print("Token usage: 1,011 input, 3 output", file=sys.stderr)
""",
}


class Programs:
    """A folder with programs, and what they noted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._notes = folder / "calls.jsonl"
        folder.mkdir()

    def write(self, name: str, body: str | None = None) -> Path:
        """Write a program; without a body, one that answers like the real one of this name."""
        path = self.folder / name
        text = _BODIES[name] if body is None else body
        path.write_text(_SCRIPT.format(python=sys.executable, notes=str(self._notes), body=text))
        path.chmod(0o755)
        return path

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Return the calls of all programs, in order."""
        return [json.loads(line) for line in self._notes.read_text().splitlines()] if self._notes.exists() else []
