"""For the tests of stored records: a copy of them for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.stored_records import Harbour, move_to


@pytest.fixture
def harbour(tmp_path: Path) -> Harbour:
    """The records, moved to a folder of this test."""
    return move_to(tmp_path / "harbour")
