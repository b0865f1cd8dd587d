"""The models on this machine: which there are, what they are, and what can run them. Nothing here loads one."""

from ..memory import free_memory
from .entries import EMBEDDED, LibraryError, add, entries, locate, remove
from .facts import Facts, examine
from .machine import Backend, backends, choose

__all__ = [
    "EMBEDDED",
    "Backend",
    "Facts",
    "LibraryError",
    "add",
    "backends",
    "choose",
    "entries",
    "examine",
    "free_memory",
    "locate",
    "remove",
]
