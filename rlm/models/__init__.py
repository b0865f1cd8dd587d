"""Language models: asking one, and those that answer from a file."""
