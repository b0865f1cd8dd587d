"""GGUF files: reading them, and converting them to folders for MLX."""

from .cache import as_mlx
from .errors import WeightsError

__all__ = ["WeightsError", "as_mlx"]
