"""The schema of task files."""
