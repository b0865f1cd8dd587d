"""Attempts to get out of a session, or to do harm from inside one. Each asserts, seen from the host, that it failed."""
