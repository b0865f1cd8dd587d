"""Files to the first cell: `python benchmarks/files.py [--rounds 5] [--files 10000] [--bytes 500MB] [--json FILE]`.

A folder of many files and one large file, from "open a session" to the end of a first cell that reads some of it:
mounted, as `rlm` does; copied into a folder of the session's own, as a sandbox without mounts has to; and read by the
host and given as texts. All of it runs on this machine, in turns, with files that the system has in its cache.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import sandbox
from rlm.units import parse_size, size_text

LIMITS = sandbox.Limits(memory_bytes=4 << 30, cell_seconds=300)
LINE = b"2026-11-19 10:00:00 GET /index 200 a line of a log that is neither short nor long\n"


def first_cell(pool: sandbox.Pool, tier: str, inputs: dict[str, Any], code: str) -> float:
    """Open a session, run a cell, and return the seconds."""
    began = time.perf_counter()
    with sandbox.Session(inputs=inputs, isolation=tier, limits=LIMITS, pool=pool) as session:
        result = session.run(code)
        taken = time.perf_counter() - began
        if result.error is not None or result.value is not True:
            raise SystemExit(f"{code!r} failed: {result.error or result.value_repr}")
    return taken


def ways_for_folder(folder: Path, count: int, pool: sandbox.Pool) -> dict[str, Callable[[str], float]]:
    """The ways to a first cell that counts the files of a folder and reads one of them."""

    def mounted(tier: str) -> float:
        return first_cell(
            pool, tier, {"data": sandbox.Folder(folder)}, f"len(data) == {count} and data.files[7].text[:4] == 'file'"
        )

    def listed(tier: str) -> float:
        files = [sandbox.File(path) for path in sorted(folder.rglob("*.txt"))]
        return first_cell(pool, tier, {"data": files}, f"len(data) == {count} and data[7].text[:4] == 'file'")

    def copied(tier: str) -> float:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as place:
            shutil.copytree(folder, Path(place, "copy"), symlinks=True)
            copying = time.perf_counter() - began
            code = f"len(data) == {count} and data.files[7].text[:4] == 'file'"
            return copying + first_cell(pool, tier, {"data": sandbox.Folder(Path(place, "copy"))}, code)

    def as_texts(tier: str) -> float:
        began = time.perf_counter()
        texts = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.txt")}
        reading = time.perf_counter() - began
        return reading + first_cell(pool, tier, {"data": texts}, f"len(data) == {count}")

    return {
        "mounted": mounted,
        "mounted one by one": listed,
        "copied, then mounted": copied,
        "given as texts": as_texts,
    }


def ways_for_file(path: Path, pool: sandbox.Pool) -> dict[str, Callable[[str], float]]:
    """The ways to a first cell that reads the beginning and the end of a large file."""
    begins = LINE[:10].decode()

    def mounted(tier: str) -> float:
        return first_cell(
            pool, tier, {"log": sandbox.File(path)}, f"log.text[:10] == {begins!r} == log.text[-{len(LINE)}:][:10]"
        )

    def opened(tier: str) -> float:
        code = f"with log.open('r') as file:\n    line = next(file)\nline[:10] == {begins!r}"
        return first_cell(pool, tier, {"log": sandbox.File(path)}, code)

    def copied(tier: str) -> float:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as place:
            shutil.copyfile(path, Path(place, "copy.log"))
            copying = time.perf_counter() - began
            code = f"log.text[:10] == {begins!r}"
            return copying + first_cell(pool, tier, {"log": sandbox.File(Path(place, "copy.log"))}, code)

    def as_text(tier: str) -> float:
        began = time.perf_counter()
        text = path.read_text()
        reading = time.perf_counter() - began
        return reading + first_cell(pool, tier, {"log": text}, f"log[:10] == {begins!r}")

    ways = {"mounted, .text": mounted, "mounted, .open()": opened, "copied, then mounted": copied}
    return {**ways, "given as a text": as_text}


def make_files(place: Path, count: int, size: int) -> tuple[Path, Path]:
    """Write a folder of small files, 100 to a folder below, and a large file."""
    folder = place / "folder"
    for number in range(count):
        path = folder / f"{number // 100:03d}" / f"{number:05d}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"file {number}\n" + "x" * 500)
    large = place / "large.log"
    with large.open("wb") as file:
        for _ in range(size // len(LINE) // 1000):
            file.write(LINE * 1000)
    return folder, large


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--bytes", default="500MB")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    size = int(parse_size(options.bytes))
    results: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as place, sandbox.Pool(size=1) as pool:
        folder, large = make_files(Path(place), options.files, size)
        tasks = {
            f"a folder of {options.files:,} files": ways_for_folder(folder, options.files, pool),
            f"a file of {size_text(size)}": ways_for_file(large, pool),
        }
        for tier in ("namespaces", "landlock"):
            try:
                first_cell(pool, tier, {}, "True")
            except sandbox.IsolationUnavailable as error:
                print(f"{tier}: {error}")
                continue
            for _ in range(options.rounds):
                for task, ways in tasks.items():
                    for way, measure in ways.items():
                        results.setdefault(f"{task}, {tier}", {}).setdefault(way, []).append(measure(tier))
    for task, ways_of_task in results.items():
        print(f"\n{task}: seconds to the end of the first cell, median of {options.rounds} (least to most)")
        for way, seconds in ways_of_task.items():
            print(f"  {way:24} {statistics.median(seconds):8.3f}   ({min(seconds):.3f} to {max(seconds):.3f})")
    print(f"\n{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
