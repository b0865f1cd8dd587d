"""Direct calls to servers with OpenAI's chat API, over an HTTP/1.1 client whose cost `benchmarks/runtime.py` checks."""
