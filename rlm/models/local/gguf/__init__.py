"""Weights of local models: the embedded one, and GGUF files as MLX wants them.

folder = as_mlx(embedded_gguf())
"""

from ..embedded import embedded_gguf
from .cache import as_mlx
from .errors import WeightsError

__all__ = ["WeightsError", "as_mlx", "embedded_gguf"]
