"""What a caller may name: files below the allowed folders, and nothing that leads out of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlm.mcp_server.documents import Folders, NotReadable
from tests.support.mcp_questions import write_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path)
    return tmp_path / "documents"


def test_files_and_folders_are_read_by_their_names(folder: Path) -> None:
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "x.txt").write_text("x")
    read = Folders([folder]).read(["."])
    assert list(read.texts) == ["deep/er/x.txt", "more.md", "notes.txt"]
    assert read.paths["deep/er/x.txt"] == str(folder / "deep" / "er" / "x.txt")
    assert list(Folders([folder]).read([str(folder / "more.md"), "deep"]).texts) == ["more.md", "deep/er/x.txt"]


@pytest.mark.parametrize(
    "name", ["../outside.txt", "/etc/passwd", "deep/../../outside.txt", "link.txt", "out/outside.txt", "a\0b", "", "~"]
)
def test_nothing_outside_is_reached(folder: Path, name: str) -> None:
    (folder / "link.txt").symlink_to(folder.parent / "outside.txt")
    (folder / "out").symlink_to(folder.parent)
    with pytest.raises(NotReadable):
        Folders([folder]).read([str(folder.parent) if name == "" else name])


def test_links_in_folders_are_left_out(folder: Path) -> None:
    (folder / "link.txt").symlink_to(folder.parent / "outside.txt")
    (folder / "out").symlink_to(folder.parent)
    read = Folders([folder]).read(["."])
    assert not any("nobody" in text for text in read.texts.values())
    assert {"link.txt is a link", "out is a link"} <= set(read.left_out)


def test_a_link_inside_may_be_named(folder: Path) -> None:
    (folder / "link.txt").symlink_to(folder / "more.md")
    assert Folders([folder]).read(["link.txt"]).texts == {"more.md": "more\n"}


def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between looking where a name leads and opening it, somebody puts a link there."""
    inner = folder / "inner"
    inner.mkdir()
    (inner / "outside.txt").write_text("inside")
    folders, resolve = Folders([folder]), Path.resolve

    def swap(path: Path, strict: bool = False) -> Path:
        resolved = resolve(path, strict)
        if inner.is_dir() and not inner.is_symlink():
            (inner / "outside.txt").unlink()
            inner.rmdir()
            inner.symlink_to(folder.parent)
        return resolved

    monkeypatch.setattr(Path, "resolve", swap)
    with pytest.raises(NotReadable, match="cannot be read"):
        folders.read(["inner/outside.txt"])


def test_what_is_no_regular_text_file_is_refused(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "latin.txt").write_bytes(b"caf\xe9")
    for name, why in (("pipe", "regular"), ("latin.txt", "UTF-8"), ("picture.png", "not text")):
        with pytest.raises(NotReadable, match=why):
            Folders([folder]).read([name])


def test_too_much_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlm.mcp_server.documents.MAX_BYTES", 10)
    with pytest.raises(NotReadable, match="more than"):
        Folders([folder]).read(["."])
    monkeypatch.undo()
    monkeypatch.setattr("rlm.mcp_server.documents.MAX_FILES", 1)
    with pytest.raises(NotReadable, match="more than 1 file"):
        Folders([folder]).read(["."])


def test_only_what_both_sides_allow_is_allowed(folder: Path) -> None:
    allowed = Folders([folder])
    assert allowed.within(None) is allowed
    assert allowed.within([folder.parent]).roots == (folder,)
    (folder / "deep").mkdir()
    assert allowed.within([folder / "deep", "/usr"]).roots == (folder / "deep",)
    assert allowed.within(["/usr", folder / "no"]).roots == ()
