"""Replies of scripted models."""

from __future__ import annotations


def cell(code: str, thought: str = "I go on.") -> str:
    """Return a reply with a sentence and a block of code."""
    return f"{thought}\n```python\n{code}\n```"
