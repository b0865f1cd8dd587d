"""Direct requests to OpenAI-style servers."""
