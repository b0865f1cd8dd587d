"""Backends of local models: llama.cpp, MLX and transformers."""
