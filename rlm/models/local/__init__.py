"""Models in this process: loading them, generating answers, and constraining the answers to types.

Nothing here is imported until a local model is created.
"""
