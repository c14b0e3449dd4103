"""Finds the files that tests read: ours in `tests/data`, and published ones beside the
checkout, if there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

OURS = Path(__file__).parents[1] / "data"
PUBLISHED = Path(__file__).parents[3] / "shared" / "data"
"""Files of others that may not be given on; a clone alone does not have them."""

needs_published = pytest.mark.skipif(
    not PUBLISHED.is_dir(),
    reason="figures of published files (../shared/data), which are not given on",
)
"""For tests of figures over many published files. All other tests read ours, and
these beside them.
"""


def published(folder: str, pattern: str = "*") -> list[Path]:
    """Returns the published files of a folder in order; none where they are not there."""
    return sorted((PUBLISHED / folder).glob(pattern))


def ours(folder: str, pattern: str = "*") -> list[Path]:
    """Returns our files of a folder in order. Raises: AssertionError where there is none."""
    files = sorted((OURS / folder).glob(pattern))
    assert files, f"no {pattern} in tests/data/{folder}"
    return files


def workflow_batches(pattern: str = "n*.json", *, parts: int = 8) -> list[Any]:
    """Returns parameters of a test over workflow files: ours at once, the published ones
    in slow parts.
    """
    files = published("workflows", pattern)
    slow = [files[part::parts] for part in range(parts)] if files else []
    return [
        pytest.param(ours("workflows", pattern), id="ours"),
        *(
            pytest.param(batch, marks=pytest.mark.slow, id=f"published-{part}")
            for part, batch in enumerate(slow)
        ),
    ]
