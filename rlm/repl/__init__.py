"""One run: the loop, and what it is made of. Read `loop.py` first."""
