"""Export of recorded runs: JSON, JSON lines and notebooks."""
