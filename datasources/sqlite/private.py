"""Makes files and folders that only their owner may read: conversations and code lie in them.

What exists already keeps the permissions that somebody gave it. SQLite gives the files beside a
database (its write-ahead log) the permissions of the database.
"""

from __future__ import annotations

import os
from pathlib import Path

FILE_MODE = 0o600
FOLDER_MODE = 0o700


def make_folder(path: Path) -> None:
    """Make a folder where there is none; the folders above it are made as others are. Raises: OSError."""
    path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


def make_file(path: Path) -> None:
    """Make an empty file where there is none. Raises: OSError."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, FILE_MODE))
