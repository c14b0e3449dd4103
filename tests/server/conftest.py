"""What several tests of the service need."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.databases import nba_file
from tests.support.service import Service, service
from tests.support.ws_server import Running, ws_server


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A database file with the sample graph."""
    return await nba_file(tmp_path)


@pytest.fixture
async def running() -> AsyncIterator[Service]:
    """A service that the rows of a table share."""
    async with service() as made:
        yield made


@pytest.fixture
async def ws() -> AsyncIterator[Running]:
    """A WebSocket that the rows of a table share."""
    async with ws_server() as made:
        yield made
