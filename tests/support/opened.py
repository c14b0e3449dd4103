"""Opens what a command works with, for as long as a test or a measurement takes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from graphrag.app.wiring import Services, close_agents, open_shared
from graphrag.config import Settings


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncGenerator[Services]:
    """Open the services of the settings' workspace and close them again.
    Raises: as `open_shared`.
    """
    async with open_shared(settings) as shared:
        services = shared.services(settings.workspace)
        try:
            yield services
        finally:
            await close_agents(services)
