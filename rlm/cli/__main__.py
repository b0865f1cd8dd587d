"""`python -m rlm.cli`."""

from . import main

main()
