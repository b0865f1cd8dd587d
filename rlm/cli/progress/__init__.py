"""Progress of runs, batches and evaluations in the terminal."""
