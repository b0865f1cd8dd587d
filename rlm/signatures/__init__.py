"""Typed signatures: what goes into a task, what must come out of it, and what is wrong with values that do not fit."""

from .fields import Field
from .parser import REQUIRED, SignatureError
from .problems import Problem
from .signature import Signature
from .validation import InvalidInputs, InvalidOutputs, InvalidValue

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
