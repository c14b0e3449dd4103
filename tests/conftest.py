"""What the whole suite shares: how hard properties are tried, its fixtures, and that no
skip goes unsaid.
"""

from __future__ import annotations

import gc
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.acceptance import is_acceptance

# Thousands of tests and the modules they need stay till the end: looking through them for garbage
# each time that some hundred objects were made took longer than many tests.
gc.set_threshold(20_000, 20, 20)
gc.disable()  # until all is collected

# A database file in memory is made in 15 ms instead of 75: nothing waits for a disk. What the tests
# write in all is below 1 GiB.
_IN_MEMORY = Path("/dev/shm")
if (
    _IN_MEMORY.is_dir()
    and os.access(_IN_MEMORY, os.W_OK)
    and shutil.disk_usage(_IN_MEMORY).free > 4 << 30
):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))

# A shared machine may be slow at any moment: time is no reason to fail a property.
_UNHURRIED = [HealthCheck.too_slow]
# The usual run tries the same examples every time, the quick one a third; the thorough one looks
# for new ones.
settings.register_profile(
    "default",
    derandomize=True,
    max_examples=20,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=_UNHURRIED,
)
settings.register_profile("quick", settings.get_profile("default"), max_examples=7)
settings.register_profile(
    "thorough",
    max_examples=1000,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=_UNHURRIED,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure(config: pytest.Config) -> None:
    """Print why a test was skipped; load the fixtures where tests run; try less where
    nothing is slow.

    A process that only hands tests out to others needs no fixtures, which import the whole service.
    """
    if "s" not in config.option.reportchars:
        config.option.reportchars += "s"
    hands_out = config.getoption("dist", "no") != "no" and not config.option.collectonly
    if not hands_out or hasattr(config, "workerinput"):
        config.pluginmanager.import_plugin("tests.support.fixtures")
    if "not slow" in config.option.markexpr and "HYPOTHESIS_PROFILE" not in os.environ:
        settings.load_profile("quick")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the acceptance tests, so that they can be chosen by `-m acceptance`."""
    for item in items:
        if is_acceptance(item.path):
            item.add_marker(pytest.mark.acceptance)


def pytest_collection_finish() -> None:
    """Leave what was collected out of all later looks for garbage."""
    gc.freeze()
    gc.enable()
