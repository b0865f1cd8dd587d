"""The models on this machine: their names, the facts about them and the backends that run them. None is loaded."""

from .backend_choice import Backend, backends, choose
from .hardware import free_memory
from .model_files import Facts, examine
from .registry import EMBEDDED, LibraryError, add, entries, locate, remove

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
