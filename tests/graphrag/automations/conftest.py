"""What the tests of the service of automations share."""

from collections.abc import AsyncIterator

import pytest

from graphrag.config import Settings
from tests.support.automation_setting import Setting
from tests.support.opened import open_services


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    settings = Settings(db="memory:", embeddings="none", automations_max=3, provider="offline")
    async with open_services(settings) as services:
        yield Setting(services)
