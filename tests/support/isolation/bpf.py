"""An interpreter of classic BPF as seccomp has it, so that a filter can be tried for a machine that is not here."""

from __future__ import annotations

import struct
from functools import cache
from typing import NamedTuple

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000


class Call(NamedTuple):
    """What the system shows a filter of one call."""

    arch: int
    number: int
    args: tuple[int, ...] = ()


def evaluate(program: bytes, call: Call) -> int:
    """The value that the filter returns. Raises on anything that the system would refuse to load."""
    padded = [*call.args, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<IIQ6Q", call.number & 0xFFFFFFFF, call.arch, 0, *(arg & (1 << 64) - 1 for arg in padded))
    instructions = _decode(program)
    accumulator = position = 0
    while True:
        code, if_true, if_false, operand = instructions[position]
        position += 1
        match code:
            case 0x20:
                assert operand % 4 == 0
                (accumulator,) = struct.unpack_from("<I", data, operand)
            case 0x54:
                accumulator &= operand
            case 0x05:
                position += operand
            case 0x15:
                position += if_true if accumulator == operand else if_false
            case 0x35:
                position += if_true if accumulator >= operand else if_false
            case 0x45:
                position += if_true if accumulator & operand else if_false
            case 0x06:
                return int(operand)
            case _:
                raise ValueError(f"instruction {code:#x} is not one that the filter should use")


def decision(program: bytes, call: Call) -> str | int:
    """`allow`, `kill`, or the error number."""
    value = evaluate(program, call)
    if value == ALLOW:
        return "allow"
    if value == KILL:
        return "kill"
    assert value & 0xFFFF0000 == ERRNO, hex(value)
    return value & 0xFFFF


@cache
def _decode(program: bytes) -> list[tuple[int, ...]]:
    return [struct.unpack_from("<HBBI", program, offset) for offset in range(0, len(program), 8)]
