"""The worker side of a batch: what runs in each process."""
