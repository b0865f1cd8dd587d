"""Files and folders as inputs of a session: read in place, in every tier, and never changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import sandbox

TIERS = ("namespaces", "landlock")


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest) -> str:
    try:
        sandbox.pool.Setup.choose(request.param, sandbox.Limits())
    except sandbox.IsolationUnavailable as error:
        pytest.skip(str(error))
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "given"
    (place / "below").mkdir(parents=True)
    (place / "a.txt").write_text("one\ntwo\n")
    (place / "below" / "b.csv").write_text("x,y\n1,2\n")
    place.chmod(0o700)
    (place / "a.txt").chmod(0o600)
    return place


def test_a_file_is_read_in_place(open_session, tier, folder):
    session = open_session(inputs={"doc": sandbox.File(folder / "a.txt")}, isolation=tier)
    result = session.run(
        "print(doc.name, doc.size, doc.text, open(doc).read() == doc.text == doc.open('r').read(), doc.read())"
    )
    assert result.error is None
    assert result.text == "a.txt 8 one\ntwo\n True b'one\\ntwo\\n'\n"


def test_files_can_be_parts_of_inputs(open_session, tier, folder):
    a, b = sandbox.File(folder / "a.txt"), sandbox.File(folder / "below" / "b.csv")
    session = open_session(inputs={"docs": [a, b], "named": {"b": b}, "n": 3}, isolation=tier)
    result = session.run("print([doc.name for doc in docs], named['b'] == docs[1], named['b'].text.split(), n)")
    assert result.text == "['a.txt', 'b.csv'] True ['x,y', '1,2'] 3\n"


def test_a_folder_lists_its_files_and_nothing_else(open_session, tier, folder):
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("a.txt")
    session = open_session(inputs={"data": sandbox.Folder(folder)}, isolation=tier)
    result = session.run(
        "print(len(data), [one.name for one in data.files])\n"
        "print([one.name for one in data.glob('*')], [one.name for one in data.glob('**/*.csv')])\n"
        "print(data['below/b.csv'].text, 'nothing' in data)\n"
        "data['b.txt']"
    )
    assert result.text.splitlines()[:2] == ["2 ['a.txt', 'below/b.csv']", "['a.txt'] ['below/b.csv']"]
    assert result.error.name == "KeyError"


def test_a_large_text_is_not_decoded_as_a_whole(open_session, tier, tmp_path):
    path = tmp_path / "large.txt"
    with path.open("w") as file:
        for number in range(300_000):
            file.write(f"line {number} of a text that goes on and on\n")
    session = open_session(inputs={"doc": sandbox.File(path)}, isolation=tier)
    result = session.run(
        "print(type(doc.text).__name__, doc.text[5:6], sum(1 for _ in doc.lines), doc.text.find('line 299999'))"
    )
    assert result.error is None
    name, start, count, at = result.text.split()
    assert (name, start, count) == ("TextView", "0", "300000")
    assert int(at) == path.read_text().find("line 299999")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"\xef\xbb\xbfgr\xc3\xbc\xc3\x9fe", "grüße"),
        ("grüße".encode("utf-16"), "grüße"),
        (b"gr\xfc\xdfe\r\n", "grüße\n"),
        (b"", ""),
    ],
)
def test_encodings_of_texts(open_session, tmp_path, content, text):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    session = open_session(inputs={"doc": sandbox.File(path)})
    assert session.run("doc.text").value == text


def test_what_is_no_text_says_so(open_session, tmp_path):
    path = tmp_path / "data.bin"
    path.write_bytes(b"\0\1\2")
    session = open_session(inputs={"doc": sandbox.File(path)})
    assert session.run("doc.text").error.name == "NotText"
    assert session.run("doc.read()[1]").value == 1


def test_variables_that_are_files_are_shown_by_name_and_size(open_session, folder):
    session = open_session(inputs={"doc": sandbox.File(folder / "a.txt"), "data": sandbox.Folder(folder)})
    session.run("doc.text, data.files")
    shown = {name: variable.preview for name, variable in session.variables().items()}
    assert shown["doc"] == "<File 'a.txt', 8 bytes>"
    assert shown["data"] == "<Folder 'given'>"


def test_files_of_the_same_name_are_told_apart(open_session, tmp_path):
    files = []
    for number in range(3):
        place = tmp_path / str(number)
        place.mkdir()
        (place / "report.txt").write_text(str(number))
        files.append(sandbox.File(place / "report.txt"))
    session = open_session(inputs={"docs": files})
    assert session.run("[doc.text for doc in docs]").value == ["0", "1", "2"]


def test_a_file_whose_name_is_a_line_of_its_own(open_session, tier, tmp_path):
    path = tmp_path / "a\nb \u202e\udcff.txt"
    path.write_text("inside")
    session = open_session(inputs={"doc": sandbox.File(path)}, isolation=tier)
    result = session.run("print(doc.text)")
    assert result.text == "inside\n"


def test_what_is_no_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "absent", "/dev/null", "/proc/self/maps"):
        with pytest.raises(sandbox.InputError, match=str(path)):
            sandbox.File(path)
    for path in ("/", "/proc", "/dev", tmp_path / "pipe"):
        with pytest.raises(sandbox.InputError):
            sandbox.Folder(path)


@pytest.mark.parametrize("replaced_by", ["a link", "another file", "nothing"])
def test_a_file_that_was_replaced_since_it_was_named_is_not_shown(pool, tier, folder, tmp_path, replaced_by):
    (tmp_path / "secret").write_text("do not show")
    named = sandbox.File(folder / "a.txt")
    (folder / "a.txt").rename(folder / "away")
    if replaced_by == "a link":
        (folder / "a.txt").symlink_to(tmp_path / "secret")
    elif replaced_by == "another file":
        (folder / "a.txt").write_text("another")
    with pytest.raises(sandbox.KernelStartError, match=r"a\.txt"):
        sandbox.Session(inputs={"doc": named}, isolation=tier, pool=pool)


def test_a_folder_on_the_way_that_becomes_a_link_leads_nowhere(pool, tier, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "secret").mkdir()
    for name in ("real", "secret"):
        (tmp_path / name / "doc.txt").write_text(name)
    named = sandbox.File(tmp_path / "real" / "doc.txt")
    (tmp_path / "real").rename(tmp_path / "old")
    (tmp_path / "real").symlink_to(tmp_path / "secret")
    with pytest.raises(sandbox.KernelStartError, match="replaced"):
        sandbox.Session(inputs={"doc": named}, isolation=tier, pool=pool)


def test_kinds_of_files_are_guessed_without_the_lists_of_the_host(open_session, tier):
    session = open_session(isolation=tier)
    assert session.run("import mimetypes\nmimetypes.guess_type('a.csv')[0]").value == "text/csv"


def test_files_cannot_be_given_to_a_session_that_is_open(open_session, folder):
    session = open_session()
    with pytest.raises(sandbox.InputError, match="when it is opened"):
        session.set(doc=sandbox.File(folder / "a.txt"))


async def test_an_asynchronous_session_reads_files(pool, tier, folder):
    doc = sandbox.File(folder / "a.txt")
    async with sandbox.AsyncSession(inputs={"doc": doc}, isolation=tier, pool=pool) as session:
        assert (await session.run("doc.text")).value == "one\ntwo\n"


def test_a_kernel_with_files_does_not_come_from_the_pool(pool, open_session, folder):
    pool.wait_full()
    session = open_session(inputs={"doc": sandbox.File(folder / "a.txt")})
    plain = open_session()
    assert session.run("import os; os.path.exists(doc)").value is True
    assert plain.run("import os; os.path.exists('/files')").value is False
