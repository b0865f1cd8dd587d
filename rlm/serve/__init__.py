"""`rlm serve`: runs and sessions over HTTP, for programs, for clients of OpenAI's API, and for a browser."""
