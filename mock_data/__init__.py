"""Sample graphs and conversations as data; imports nothing of ours."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def load_text(name: str) -> str:
    """Return a file of this package, such as `nba.json` or
    `workflows/NAME`. Raises: FileNotFoundError.
    """
    return files(__name__).joinpath(*name.split("/")).read_text(encoding="utf-8")


def load_json(name: str) -> Any:
    """Return a JSON file of this package, parsed. Raises: FileNotFoundError."""
    return json.loads(load_text(name))
