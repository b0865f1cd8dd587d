"""Documents: text, pages and tables, with their numbers; and what damaged and hostile ones do to a session."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path

import pytest

import sandbox
from tests.support import documents

pytest.importorskip("pypdfium2")


@pytest.fixture
def read(open_session, tmp_path):
    """Runs code with `doc`, a file of this name and content, in a session."""

    def run(name: str, content: bytes | Path, code: str, **limits):
        path = content if isinstance(content, Path) else tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        session = open_session(inputs={"doc": sandbox.File(path)}, limits=sandbox.Limits(**limits))
        return session.run(code, json=True)

    return run


def value_of(result: sandbox.CellResult) -> object:
    assert result.error is None, result.error
    return json.loads(result.data["application/json"])


def test_a_pdf_has_pages(read, tmp_path):
    path = documents.write_pdf(tmp_path / "a.pdf", ["Ships\nAnna (38)", "Ports", ""])
    code = "[len(doc.pages), str(doc.pages[0]), doc.pages[1].number, doc.text.count('\\f'), doc.pages[-1] == '']"
    result = read("a.pdf", path, code)
    assert result.error is None
    assert value_of(result) == [3, "Ships\nAnna (38)", 2, 2, True]


def test_pages_are_texts(read, tmp_path):
    path = documents.write_pdf(tmp_path / "a.pdf", ["one 1", "two 2"])
    result = read("a.pdf", path, "import re\n[re.findall(r'\\d', p) + [p.upper(), p.number] for p in doc.pages]")
    assert value_of(result) == [["1", "ONE 1", 1], ["2", "TWO 2", 2]]


def test_a_word_document(read, tmp_path):
    path = documents.write_docx(tmp_path / "a.docx")
    result = read(
        "a.docx", path, "[len(doc.pages), 'first' in doc.pages[0], doc.pages[1], doc.tables[0], doc.tables[0].page]"
    )
    assert result.error is None
    assert value_of(result)[0:2] == [2, True]
    assert "The second page." in value_of(result)[2]
    assert value_of(result)[3:] == [[["ship", "port"], ["Anna", "Riga"]], 2]


def test_a_workbook_has_cells_with_names(read, tmp_path):
    path = documents.write_xlsx(tmp_path / "a.xlsx")
    code = (
        "ships, ports = doc.tables\n"
        "[[p.name for p in doc.pages], list(ships), ships.cell(1, 1), ports[4], ports.cell(4, 2), str(doc.pages[0])]"
    )
    assert value_of(read("a.xlsx", path, code)) == [
        ["Ships", "Ports"],
        [["ship", "visits"], ["Anna", 38], ["Berta"]],
        "Ships!B2",
        [None, None, "Riga"],
        "Ports!C5",
        "ship\tvisits\nAnna\t38\nBerta",
    ]


def test_a_presentation(read, tmp_path):
    path = documents.write_pptx(tmp_path / "a.pptx")
    result = read("a.pptx", path, "[str(p) for p in doc.pages] + [p.name for p in doc.pages] + list(doc.tables)")
    assert result.error is None
    assert value_of(result) == [
        "Plan\nSail to Riga\nspeak slowly",
        "Ships\nship\tport\nAnna\tRiga",
        "Plan",
        "Ships",
        [["ship", "port"], ["Anna", "Riga"]],
    ]


def test_html_is_what_is_seen_of_it(read):
    result = read("a.html", documents.HTML.encode(), "[doc.text, list(doc.tables)]")
    assert value_of(result) == [
        "Ships\nThe Anna sails.\nship\tport\nAnna\tRiga",
        [[["ship", "port"], ["Anna", "Riga"]]],
    ]


def test_an_e_mail(read):
    result = read("a.eml", documents.EML.encode(), "doc.text")
    assert "Subject: Grüße" in value_of(result)
    assert "The Anna sails." in value_of(result)
    assert "[attachment: bill.pdf]" in value_of(result)


def test_a_plain_text_is_one_page_without_tables(read):
    assert value_of(read("a.txt", b"one\ntwo", "[doc.pages, doc.pages[0].number, doc.tables]")) == [["one\ntwo"], 1, []]


@pytest.mark.parametrize("name", ["a.pdf", "a.docx", "a.xlsx", "a.pptx"])
def test_a_damaged_document_says_what_it_is(read, name):
    magic = b"%PDF-1.7\n" if name == "a.pdf" else b"PK\x03\x04"
    result = read(name, magic + b"nothing of the kind" * 100, "doc.pages[0]")
    assert result.error.name == "NoDocument"


def test_a_document_without_its_library_says_which(read, tmp_path, open_session):
    path = documents.write_pdf(tmp_path / "a.pdf", ["x"])
    session = open_session(inputs={"doc": sandbox.File(path)}, policy="off")
    session.run("import sys\nsys.modules['pypdfium2'] = None")
    assert "pypdfium2" in session.run("doc.pages").error.message


# -- hostile documents: what they can use up is their session's, and the host is told


@pytest.fixture(params=["namespaces", "landlock"])
def attack(request, open_session, tmp_path):
    """As `read`, in each tier; the pool goes on after it."""

    def run(name: str, content: bytes | Path, code: str, **limits):
        path = content if isinstance(content, Path) else tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        given = {"inputs": {"doc": sandbox.File(path)}, "limits": sandbox.Limits(**limits)}
        try:
            session = open_session(isolation=request.param, **given)
        except sandbox.IsolationUnavailable as error:
            pytest.skip(str(error))
        before = path.read_bytes()
        result = session.run(code, json=True)
        assert path.read_bytes() == before
        return result

    yield run
    assert open_session(isolation=request.param).run("6 * 7").value == 42


def _big_sheet(tmp_path: Path, rows: str) -> Path:
    """A workbook whose only sheet has this XML for rows."""
    good = documents.write_xlsx(tmp_path / "good.xlsx")
    with zipfile.ZipFile(good) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = "xl/worksheets/sheet1.xml"
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    members[name] = (
        f'<worksheet xmlns="{space}"><dimension ref="A1:XFD1048576"/><sheetData>{rows}</sheetData></worksheet>'.encode()
    )
    return documents.write_zip(tmp_path / "hostile.xlsx", members)


def test_a_sheet_that_says_that_it_is_huge(attack, tmp_path):
    path = _big_sheet(tmp_path, '<row r="1"><c r="A1"><v>7</v></c></row>')
    assert value_of(attack("a.xlsx", path, "list(doc.tables[0])")) == [[7]]


def test_a_cell_at_the_end_of_a_sheet(attack, tmp_path):
    path = _big_sheet(tmp_path, '<row r="1048576"><c r="XFD1048576"><v>7</v></c></row>')
    result = attack("a.xlsx", path, "t = doc.tables\nprint(len(t))", cell_seconds=20)
    assert result.error is None or result.limit is not None or result.error.name in ("NoDocument", "MemoryError")


def test_an_archive_that_unpacks_to_more_than_there_is_room_for(attack, tmp_path):
    path = documents.write_zip(tmp_path / "bomb.docx", {"word/document.xml": b" " * 100_000})
    with zipfile.ZipFile(path, "a") as archive:
        archive.infolist()[0].file_size = 600 << 20
        archive.writestr("[Content_Types].xml", "")  # which writes the list of members anew
    result = attack("bomb.docx", path, "doc.text")
    assert result.error.name == "NoDocument"
    assert "unpacks to" in result.error.message


def test_entities_that_multiply(attack, tmp_path):
    good = documents.write_docx(tmp_path / "good.docx")
    with zipfile.ZipFile(good) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    body = members["word/document.xml"].decode().partition("?>")[2].replace("The first page.", "&a11;")
    members["word/document.xml"] = f'<?xml version="1.0"?><!DOCTYPE d [<!ENTITY a0 "lol">{entities}]>{body}'.encode()
    path = documents.write_zip(tmp_path / "lol.docx", members)
    result = attack("a.docx", path, "print(len(doc.text) < 1_000_000)", cell_seconds=20)
    assert result.text == "True\n" or result.error is not None


def test_entities_that_name_a_file(attack, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("do not show")
    text = f'<!DOCTYPE html [<!ENTITY x SYSTEM "file://{secret}">]><p>&x;</p>'
    result = attack("a.html", text.encode(), "print(doc.text)")
    assert "do not show" not in result.text


def test_html_that_nests_without_end(attack):
    result = attack("a.html", b"<div>" * 200_000 + b"deep" + b"</div>" * 200_000, "print('deep' in doc.text)")
    assert result.text in ("True\n", "False\n") or result.error is not None  # what lies too deep may be left out


def test_a_pdf_whose_pages_are_its_own_parent(attack, tmp_path):
    path = documents.write_pdf(tmp_path / "a.pdf", ["x"])
    path.write_bytes(path.read_bytes().replace(b"/Kids [5 0 R] /Count 1", b"/Kids [2 0 R] /Count 9"))
    result = attack("a.pdf", path, "print([str(page) for page in doc.pages][:3])", cell_seconds=20)
    assert result.ok or result.error is not None


def test_a_pdf_with_more_pages_than_it_has(attack, tmp_path):
    path = documents.write_pdf(tmp_path / "a.pdf", ["x"])
    path.write_bytes(path.read_bytes().replace(b"/Count 1 ", b"/Count 99"))
    result = attack("a.pdf", path, "print(len(doc.pages) <= 20_000)", cell_seconds=20)
    assert result.text == "True\n" or result.error is not None


def test_a_stream_that_unpacks_without_end(attack, tmp_path):
    """100 MB of spaces in a PDF of 100 KB: more than a session with little memory has."""
    packed = zlib.compress(b" " * 100_000_000, 9)
    path = documents.write_pdf(tmp_path / "a.pdf", ["x"])
    content = path.read_bytes()
    start, end = content.index(b"<< /Length"), content.index(b"endobj\n5 0 obj")
    stream = b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream\n" % (len(packed), packed)
    path.write_bytes(content[:start] + stream + content[end:])
    result = attack("a.pdf", path, "print(len(doc.text))", memory_bytes=64 << 20, cell_seconds=20)
    assert result.text.strip().isdigit() or result.error is not None or result.death is not None
