"""Hints: what a model is told about its mistakes."""
