"""Pages printed in the terminal: results, recorded runs, evaluations, calibrators."""
