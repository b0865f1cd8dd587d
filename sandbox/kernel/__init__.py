"""What runs inside the sandbox: a small Jupyter kernel on one thread."""
