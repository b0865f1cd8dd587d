"""Executors: what runs the items of a batch, in processes or on a Ray cluster."""
