"""Rate limits of models, shared by threads and processes."""
