"""What the whole suite shares: an ArangoDB, how hard properties are tried, and that no skip goes unsaid."""

from __future__ import annotations

import gc
import os
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpcore2
import pytest
from hypothesis import HealthCheck, settings

# Imported here alone: a module that imports a fixture has one of its own, whatever its scope says.
from tests.support.arango import arango, arango_address, arango_double, arango_faults, one_database
from tests.support.databases import database, database_of_a_kind, memory
from tests.support.log_entries import log_entries
from tests.support.planted import leak_guard, nothing_planted_leaves
from tests.support.ws_contract import messages_as_documented, messages_looked_at

__all__ = ["arango", "arango_address", "arango_double", "arango_faults", "log_entries", "one_database"]
__all__ += ["database", "database_of_a_kind", "memory"]
__all__ += ["leak_guard", "messages_as_documented", "messages_looked_at", "nothing_planted_leaves"]

# Thousands of tests and the modules they need stay till the end: looking through them for garbage
# each time that some hundred objects were made took longer than many tests.
gc.set_threshold(20_000, 20, 20)
gc.disable()  # until all is collected

# A database file in memory is made in 15 ms instead of 75: nothing waits for a disk. What the tests write
# in all is below 1 GiB.
_IN_MEMORY = Path("/dev/shm")
if _IN_MEMORY.is_dir() and os.access(_IN_MEMORY, os.W_OK) and shutil.disk_usage(_IN_MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))

# A shared machine may be slow at any moment: time is no reason to fail a property.
_UNHURRIED = [HealthCheck.too_slow]
# The usual run tries the same examples every time; the thorough one looks for new ones.
settings.register_profile(
    "default",
    derandomize=True,
    max_examples=20,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=_UNHURRIED,
)
settings.register_profile(
    "thorough", max_examples=1000, stateful_step_count=60, deadline=None, suppress_health_check=_UNHURRIED
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure(config: pytest.Config) -> None:
    """Print why a test was skipped, whatever the options."""
    if "s" not in config.option.reportchars:
        config.option.reportchars += "s"


def pytest_collection_finish() -> None:
    """Leave what was collected out of all later looks for garbage."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def no_certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Every HTTP client would read those of the system, 15 ms each; the servers here speak plain HTTP.

    A client that takes nothing from the environment would read those of `certifi`, 30 ms each.
    """
    read = httpcore2.default_ssl_context

    def of_the_environment(*, _trust_env: bool = True) -> ssl.SSLContext:
        return read()

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SSL_CERT_FILE", raising=False)
        patch.setenv("SSL_CERT_DIR", str(tmp_path_factory.mktemp("certificates")))
        patch.setattr(httpcore2, "default_ssl_context", of_the_environment)
        yield
