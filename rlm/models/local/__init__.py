"""Models that run in this process: loading them, asking them, and keeping what they write inside a type.

Nothing here is imported until a local model is made.
"""
