"""What several tests of the service need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.nba_file import nba_file


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A database file with the sample graph."""
    return await nba_file(tmp_path)
