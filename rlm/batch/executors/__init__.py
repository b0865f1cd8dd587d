"""Executors of a batch: worker processes on this machine, or actors of a Ray cluster."""
