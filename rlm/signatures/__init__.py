"""Typed signatures: the inputs and outputs of a task, and the validation of their values."""

from .fields import Field
from .parser import REQUIRED, SignatureError
from .signature import Signature
from .validation import InvalidInputs, InvalidOutputs, InvalidValue, Problem

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
