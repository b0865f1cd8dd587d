"""MLX without a GPU: its wheel for the CPU has a plain reference BLAS, and NumPy has OpenBLAS on the same memory.

Layers whose weights are not quantised compute their products in NumPy. The results are the same to the last bits; a
token takes about half the time, and a prompt of fifty tokens a twentieth.
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
        """Return the output of the layer."""
        out = _product(x, self._shared)
        return out + self.bias if "bias" in self else out


class CpuEmbedding(nn.Module):  # type: ignore[misc]
    """`nn.Embedding` for the CPU; models with tied weights use it for the last product, too."""

    def __init__(self, layer: nn.Embedding) -> None:
        super().__init__()
        self.weight = layer.weight
        self._shared = np.asarray(layer.weight)

    def __call__(self, x: mx.array) -> mx.array:
        """Return the rows of these tokens."""
        return self.weight[x]

    def as_linear(self, x: mx.array) -> mx.array:
        """Return the logits of all tokens."""
        return _product(x, self._shared)


_FLOATS = (mx.float32, mx.float16, mx.bfloat16)
_NUMPY_LAYERS: dict[type, Any] = {nn.Linear: CpuLinear, nn.Embedding: CpuEmbedding}


def has_gpu() -> bool:
    """Return whether MLX computes on a GPU here."""
    return bool(mx.default_device().type != mx.DeviceType.cpu)


def use_numpy_layers(model: Any) -> None:
    """Replace the layers of a model that are not quantised, in float32, if this MLX has no GPU."""
    if has_gpu():
        return
    mx.disable_compile()  # on the CPU it calls a C++ compiler, which may be missing
    parameters = [value for _, value in tree_flatten(model.parameters())]
    if all(value.dtype in _FLOATS for value in parameters):  # no layer is quantised
        model.set_dtype(mx.float32)
    mx.eval(model.parameters())
    layers = tree_map(_numpy_layer, model.leaf_modules(), is_leaf=nn.Module.is_module)
    model.update_modules(layers)


def _numpy_layer(layer: Any) -> Any:
    cls = _NUMPY_LAYERS.get(type(layer))
    return cls(layer) if cls is not None and layer.weight.dtype == mx.float32 else layer


def limited_threads() -> AbstractContextManager[Any]:
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
