"""Evidence for values that come from files: the page of a document, and quotes that are looked up there."""

from __future__ import annotations

import pytest

import rlm
from rlm.models.scripted import scripted_lm
from tests.support.documents import write_pdf, write_xlsx

pytest.importorskip("pypdfium2")

PAGES = ["Ships of the year", "Anna Kristina called at Riga\nRevenue 1,234,567", "Berta called nowhere"]


@pytest.fixture
def report(tmp_path):
    return rlm.File(write_pdf(tmp_path / "report.pdf", PAGES))


def run(pool, signature, cells, **inputs):
    lm = scripted_lm([f"```python\n{cell}\n```" for cell in cells])
    return rlm.Predict(signature, lm=lm, pool=pool).run_with_fallback(**inputs)


def test_a_number_has_the_page_that_it_stands_on(pool, report):
    cells = [
        "page = next(p for p in report.pages if 'Revenue' in p)\nprint(page)",
        "SUBMIT(revenue=int(page.rpartition(' ')[2].replace(',', '')))",
    ]
    result = run(pool, "report: File -> revenue: int", cells, report=report)
    assert isinstance(result, rlm.Submitted), result
    (piece,) = result.evidence
    assert (piece.kind, piece.inputs) == ("computed", ("report",))
    assert "1,234,567 stands in report/page 2, line 2" in piece.note


def test_a_quote_is_looked_up_on_the_pages(pool, report, tmp_path):
    other = rlm.File(write_xlsx(tmp_path / "ships.xlsx"))
    wrong = 'SUBMIT(ship={"value": docs[0].name, "quotes": ["Carla called at Riga"]})'
    right = 'SUBMIT(ship={"value": "Anna", "quotes": ["Anna  Kristina called at Riga", "Anna\\t38"]})'
    lm = scripted_lm([f"```python\n{cell}\n```" for cell in (wrong, right)])
    predict = rlm.Predict("docs: list[File] -> ship: Cited[str]", lm=lm, pool=pool)
    result = predict.run_with_fallback(docs=[report, other])
    assert isinstance(result, rlm.Submitted), result
    assert "in none of the inputs" in result.history[0].output
    assert "report.pdf/page 2" in result.history[0].output
    places = [piece.input for piece in result.evidence if piece.kind == "quoted"]
    assert places == ["docs/report.pdf/page 2", "docs/ships.xlsx/sheet Ships"]


def test_a_folder_is_searched_for_the_documents_that_were_named(pool, tmp_path):
    (tmp_path / "in" / "sub").mkdir(parents=True)
    write_pdf(tmp_path / "in" / "sub" / "a.pdf", ["one", "Anna Kristina"])
    (tmp_path / "in" / "note.txt").write_text("Berta\nCarla Maria")
    cells = [
        "text = data['sub/a.pdf'].pages[1]\nmore = data['note.txt'].text",
        "SUBMIT(ship=str(text), other=more.splitlines()[1])",
    ]
    folder = rlm.Folder(tmp_path / "in")
    result = run(pool, "data: Folder -> ship: str, other: str", cells, data=folder)
    assert isinstance(result, rlm.Submitted), result
    found = {piece.path: f"{piece.input} {piece.note}" for piece in result.evidence}
    assert "data/sub~1a.pdf/page 2" in found["/ship"]
    assert "data/note.txt" in found["/other"]


def test_code_cannot_say_where_something_stands(pool, report):
    """What the kernel of the run has of a file does not count: it is read again by another."""
    cells = [
        "text = 'Carla called at Riga'\nreport._cache['document'] = type('D', (), {'pages': [text], 'text': text})",
        'SUBMIT(ship={"value": report.text, "quotes": ["Carla called at Riga"]})',
    ]
    lm = scripted_lm([f"```python\n{cell}\n```" for cell in cells] + ["nothing"] * 9)
    predict = rlm.Predict("report: File -> ship: Cited[str]", lm=lm, pool=pool, max_iterations=2)
    result = predict.run_with_fallback(report=report)
    assert not isinstance(result, rlm.Submitted)
    assert any("in none of the inputs" in entry.output for entry in result.history)


def test_a_hostile_document_costs_the_evidence_and_not_the_answer(pool, tmp_path):
    path = tmp_path / "bad.pdf"
    path.write_bytes(b"%PDF-1.7\n" + b"nothing of the kind" * 50)
    result = run(pool, "doc: File -> size: int", ["SUBMIT(size=doc.size)"], doc=rlm.File(path))
    assert isinstance(result, rlm.Submitted)
    assert result.outputs.size == path.stat().st_size
