"""Small documents of every kind that is read, made for tests."""

from __future__ import annotations

import zipfile
from pathlib import Path


def write_pdf(path: Path, pages: list[str]) -> Path:
    """Write a PDF with these texts, a page each, in a font that every reader has."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for text in pages:
        lines = "".join(f"({_escaped(line)}) Tj 0 -14 Td " for line in text.splitlines())
        stream = f"BT /F1 12 Tf 72 720 Td {lines}ET".encode("latin-1")
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(objects)
        )
        kids.append(len(objects))
    listed = b" ".join(b"%d 0 R" % kid for kid in kids)
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (listed, len(kids))
    out = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    path.write_bytes(bytes(out))
    return path


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


def write_docx(path: Path) -> Path:
    """Write a Word document of two pages, with a table on the second."""
    import docx

    document = docx.Document()
    document.add_heading("Report", 0)
    document.add_paragraph("The first page.")
    document.add_page_break()
    document.add_paragraph("The second page.")
    table = document.add_table(rows=2, cols=2)
    for row, values in zip(table.rows, [("ship", "port"), ("Anna", "Riga")], strict=True):
        for cell, value in zip(row.cells, values, strict=True):
            cell.text = value
    document.save(str(path))
    return path


def write_xlsx(path: Path) -> Path:
    """Write a workbook of two sheets."""
    import openpyxl

    book = openpyxl.Workbook()
    book.active.title = "Ships"
    for row in (("ship", "visits"), ("Anna", 38), ("Berta", None)):
        book.active.append(row)
    book.create_sheet("Ports")["C5"] = "Riga"
    book.save(path)
    return path


def write_pptx(path: Path) -> Path:
    """Write a presentation of two slides, with a table on the second and notes on the first."""
    import pptx
    from pptx.util import Inches

    show = pptx.Presentation()
    first = show.slides.add_slide(show.slide_layouts[1])
    first.shapes.title.text, first.placeholders[1].text = "Plan", "Sail to Riga"
    first.notes_slide.notes_text_frame.text = "speak slowly"
    second = show.slides.add_slide(show.slide_layouts[5])
    second.shapes.title.text = "Ships"
    table = second.shapes.add_table(2, 2, Inches(1), Inches(2), Inches(4), Inches(1)).table
    for index, value in enumerate(["ship", "port", "Anna", "Riga"]):
        table.cell(index // 2, index % 2).text = value
    show.save(str(path))
    return path


HTML = (
    "<html><head><title>x</title><style>p {}</style></head><body><h1>Ships</h1><p>The <b>Anna</b> sails.</p>"
    "<script>alert(1)</script><table><tr><th>ship</th><th>port</th></tr><tr><td>Anna</td><td>Riga</td></tr></table>"
    "</body></html>"
)

EML = (
    "From: a@example.org\nTo: b@example.org\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\nMIME-Version: 1.0\n"
    'Content-Type: multipart/mixed; boundary="x"\n\n--x\nContent-Type: text/plain\n\nThe Anna sails.\n'
    '--x\nContent-Type: application/pdf\nContent-Disposition: attachment; filename="bill.pdf"\n\nxx\n--x--\n'
)


def write_zip(path: Path, members: dict[str, bytes]) -> Path:
    """Write an archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path
