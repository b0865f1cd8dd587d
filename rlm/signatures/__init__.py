"""Typed signatures: what goes into a task, what must come out of it, and what is wrong with values that do not fit."""

from .checks import InvalidInputs, InvalidOutputs, InvalidValue
from .fields import Field
from .problems import Problem
from .signature import Signature
from .text import REQUIRED, SignatureError

__all__ = [
    "REQUIRED",
    "Field",
    "InvalidInputs",
    "InvalidOutputs",
    "InvalidValue",
    "Problem",
    "Signature",
    "SignatureError",
]
