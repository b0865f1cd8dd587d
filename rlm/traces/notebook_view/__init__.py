"""Recorded runs in a notebook: HTML tables and charts."""
