"""Files that cells write for their caller: what is collected, and that it is taken for bytes and nothing else."""

from __future__ import annotations

import base64
import hashlib

import pytest

import sandbox
from sandbox.collect import collect, is_name


@pytest.fixture(params=["namespaces", "landlock"])
def session(request, open_session):
    try:
        return open_session(
            isolation=request.param, out="OUT", limits=sandbox.Limits(file_bytes=8 << 20, file_count=100)
        )
    except sandbox.IsolationUnavailable as error:
        pytest.skip(str(error))


def test_what_a_cell_writes_is_collected(session):
    assert session.run("1").wrote is False
    result = session.run("import os\nopen(os.path.join(OUT, 'a.txt'), 'w').write('one')\nopen(OUT + '/b', 'wb')")
    assert result.error is None
    assert result.wrote is True
    assert [(file.name, file.content) for file in session.collect()] == [("a.txt", b"one"), ("b", b"")]


def test_large_files_come_in_pieces(session):
    session.run("import random\ndata = random.randbytes(5_000_001)\nopen(OUT + '/large', 'wb').write(data)")
    (file,) = session.collect()
    assert file.size == 5_000_001
    check = session.run("import hashlib\nhashlib.sha256(data).hexdigest()").value
    assert hashlib.sha256(file.content).hexdigest() == check


def test_what_is_too_much_is_named_and_left(session):
    session.run("open(OUT + '/a', 'wb').write(b'x' * 3000)\nopen(OUT + '/b', 'wb').write(b'y' * 10)")
    first, second = session.collect(max_bytes=1000)
    assert (first.content, second.content) == (None, b"y" * 10)
    assert "3,000 bytes" in first.problem


def test_the_folder_counts_as_scratch(session):
    result = session.run("open(OUT + '/large', 'wb').write(b'x' * (30 << 20))")
    assert result.limit is not None or result.error is not None or result.death is not None


def test_the_name_of_the_folder_cannot_be_bound(session):
    assert session.run("OUT = '/etc'").error.name == "Refused"


def test_a_cell_that_submits_and_stops_leaves_its_files(open_session):
    def stop() -> None:
        raise sandbox.StopCell

    session = open_session(out="OUT", functions={"stop": stop})
    session.run("open(OUT + '/a', 'w').write('one')\nstop()")
    assert [file.content for file in session.collect()] == [b"one"]


async def test_an_asynchronous_session_collects(pool):
    async with sandbox.AsyncSession(pool=pool, out="OUT") as session:
        await session.run("open(OUT + '/a', 'w').write('one')")
        assert [file.name for file in await session.collect()] == ["a"]


def test_figures_of_a_cell_are_kept(open_session):
    pytest.importorskip("matplotlib")
    session = open_session(out="OUT")
    result = session.run(
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.figure()\nplt.plot([2, 1])", timeout=60
    )
    assert result.error is None
    names = [file.name for file in session.collect() if file.content.startswith(b"\x89PNG")]
    assert len(names) == 2
    assert all(f"[figure kept as {name}]" in result.text for name in names)
    assert session.run("len(plt.get_fignums())").value == 0


@pytest.mark.parametrize(
    "name",
    ["", "/etc/passwd", "../a", "a/../../b", "a//b", "./a", "a/.", "~/a", "a\\b", "a\0b", "a\nb", "x" * 400, 7, None],
)
def test_names_that_lead_elsewhere_are_none(name):
    assert not is_name(name)


def test_a_kernel_that_lies_about_its_files():
    """What it says is taken for names and bytes: nothing outside of what was asked for, and an end to it."""
    asked = []

    def ask(order):
        asked.append(order)
        if "name" not in order:
            return {
                "files": [
                    *[["../../etc/passwd", 3], ["/etc/passwd", 3], "x", ["a", "3"], ["b", -5], ["c", 1 << 60]],
                    *[["endless", 1000], ["short", 1000], ["long", 4], ["broken", 4], ["fine", 3]],
                ]
            }
        return {
            "endless": {"data": base64.b64encode(b"x").decode()},
            "short": {"data": ""},
            "long": {"data": base64.b64encode(b"y" * 5000).decode()},
            "broken": {"data": "not base64!"},
            "fine": {"data": base64.b64encode(b"abc").decode()},
        }[order["name"]]

    found = {file.name: file.content for file in collect(ask, 10_000)}
    assert found.keys() == {"b", "c", "endless", "short", "long", "broken", "fine"}
    assert (found["b"], found["c"], found["broken"]) == (None, None, None)
    assert (found["fine"], found["long"], found["short"]) == (b"abc", b"yyyy", b"")
    assert len(found["endless"]) < 1000
    assert len(asked) < 1000


def test_a_kernel_that_lists_without_end():
    listed = {"files": [[f"f{number}", 0] for number in range(100_000)]}
    assert len(collect(lambda order: listed if "name" not in order else {"data": ""}, 1000)) <= 500
