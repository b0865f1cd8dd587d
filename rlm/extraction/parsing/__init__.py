"""Parsing of model output: lenient JSON, JSON Patch, and the search for the answer in a text."""
