"""The worker side of a batch: the code that runs in each worker process or actor."""
