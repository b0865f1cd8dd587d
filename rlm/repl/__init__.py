"""The driver: ask the model, run its code, remember, until it submits or a budget runs out."""
