"""The commands of `rlm`, one module each."""
