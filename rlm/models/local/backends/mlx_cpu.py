"""MLX without a GPU: the wheel for the CPU brings a plain reference BLAS. NumPy brings OpenBLAS, on the same memory.

Layers whose weights are not quantised hand their products to NumPy. The results are the same to the last bits; a token
takes about half the time, and a prompt of fifty tokens a twentieth.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten, tree_map

from ..hardware import default_threads


class CpuLinear(nn.Module):  # type: ignore[misc]
    """`nn.Linear` for the CPU, on the layer's own weights."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight = layer.weight
        self._shared = np.asarray(layer.weight)
        if "bias" in layer:
            self.bias = layer.bias

    def __call__(self, x: mx.array) -> mx.array:
        """The layer's output."""
        out = _product(x, self._shared)
        return out + self.bias if "bias" in self else out


class CpuEmbedding(nn.Module):  # type: ignore[misc]
    """`nn.Embedding` for the CPU: models that tie their weights use it for the last product too."""

    def __init__(self, layer: nn.Embedding) -> None:
        super().__init__()
        self.weight = layer.weight
        self._shared = np.asarray(layer.weight)

    def __call__(self, x: mx.array) -> mx.array:
        """The rows of these tokens."""
        return self.weight[x]

    def as_linear(self, x: mx.array) -> mx.array:
        """A score for every token."""
        return _product(x, self._shared)


_FLOATS = (mx.float32, mx.float16, mx.bfloat16)
_QUICK: dict[type, Any] = {nn.Linear: CpuLinear, nn.Embedding: CpuEmbedding}


def has_gpu() -> bool:
    """Whether MLX computes on a GPU here."""
    return bool(mx.default_device().type != mx.DeviceType.cpu)


def quicken(model: Any) -> None:
    """Use these layers for the model's plain ones, in float32, if this MLX has no GPU; not for quantised ones."""
    if has_gpu():
        return
    mx.disable_compile()  # on the CPU it calls a C++ compiler, which need not be there
    parameters = [value for _, value in tree_flatten(model.parameters())]
    if all(value.dtype in _FLOATS for value in parameters):  # no layer is quantised
        model.set_dtype(mx.float32)
    mx.eval(model.parameters())
    layers = tree_map(_quicker, model.leaf_modules(), is_leaf=nn.Module.is_module)
    model.update_modules(layers)


def _quicker(layer: Any) -> Any:
    quick = _QUICK.get(type(layer))
    return quick(layer) if quick is not None and layer.weight.dtype == mx.float32 else layer


def calm() -> AbstractContextManager[Any]:
    """Limit NumPy to `default_threads()` while a model computes."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    if has_gpu():
        return nullcontext()
    limit: AbstractContextManager[Any] = threadpool_limits(default_threads(), user_api="blas")
    return limit


def _product(x: mx.array, weight: np.ndarray[Any, Any]) -> mx.array:
    rows = np.asarray(x).reshape(-1, x.shape[-1])
    return mx.array(rows @ weight.T).reshape(*x.shape[:-1], weight.shape[0])
