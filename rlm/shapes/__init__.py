"""What inputs look like: kind, size, the commonest shapes of lines, columns and keys. Linear, bounded, deterministic.

`describe(value)` returns a `Shape`. The same code runs in the kernel, where it is the function `describe` of the REPL;
so these modules import nothing but the standard library and one another. See docs/reading.md.
"""

from .bundle import kernel_source
from .describe import describe
from .shape import Column, LineShape, Shape

__all__ = ["Column", "LineShape", "Shape", "describe", "kernel_source"]
