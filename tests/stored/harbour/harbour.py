"""Tools of the tasks: they wait for files of this folder, and write down that they were called."""

import time
from pathlib import Path

HERE = Path(__file__).parent


def gate(name: str) -> str:
    """Wait until the gate is open."""
    _note(f"gate {name}")
    while not (HERE / "open").exists():
        time.sleep(0.02)
    return "open"


def weigh(ship: str, tons: int) -> int:
    """Weigh the cargo of a ship. The fourth one waits at the gate."""
    _note(f"weigh {ship}")
    while ship == "Petrel" and not (HERE / "open").exists():
        time.sleep(0.02)
    return tons + 1


def tide() -> str:
    """Read the tide gauge."""
    _note("tide")
    return "high water" if (HERE / "open").exists() else "no reading"


def _note(line: str) -> None:
    with (HERE / "called.txt").open("a") as file:
        file.write(line + "\n")
