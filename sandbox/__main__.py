"""`python -m sandbox doctor`."""

from __future__ import annotations

import argparse
import sys


def main(arguments: list[str] | None = None) -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m sandbox", description="Runs Python code that nobody has read, confined by the operating system."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    doctor = commands.add_parser(
        "doctor", help="say which isolation runs here and how to get a better one (exit code 4: none does)"
    )
    doctor.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args(arguments)

    from . import doctor as found  # after the command line is understood: --help should not probe anything

    return found.main(as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
