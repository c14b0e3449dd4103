"""What several tests of the deployment need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deployment.wheels import built_wheel, copied_project


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of what it is made of."""
    return built_wheel(copied_project(tmp_path_factory.mktemp("source")))
