"""Models that are asked by a command of this machine: claude, codex, gemini, llm, or any other."""

from .lm import command_lm, lm_for
from .programs import PREFIX, CommandSpec, UnknownProgram, name_of, program_spec

__all__ = ["PREFIX", "CommandSpec", "UnknownProgram", "command_lm", "lm_for", "name_of", "program_spec"]
