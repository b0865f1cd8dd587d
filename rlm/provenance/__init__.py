"""Provenance: where each value of the outputs came from, by static analysis of the cells that the host ran.

See docs/evidence.md.
"""

from __future__ import annotations
