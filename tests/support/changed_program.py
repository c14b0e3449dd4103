"""Runs a copy of the program with some files changed: what a contributor would do is done to it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nodius_graphrag import ROOMS

ROOT = Path(__file__).parents[2]
Replaced = Iterable[tuple[str, str]]


def copy_program(folder: Path) -> Path:
    """Copies all rooms into a folder."""
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / room)
    return folder


def replace_in(file: Path, replaced: Replaced) -> None:
    """Replaces texts in a file, each of which must be in it."""
    content = file.read_text(encoding="utf-8")
    for old, new in replaced:
        assert old in content, f"{file.name} has no {old!r}"
        content = content.replace(old, new, 1)
    file.write_text(content, encoding="utf-8")


def run_in_copy(copy: Path, code: str, *arguments: str) -> Any:
    """Runs Python code with the rooms of a copy; returns the JSON that it prints."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=copy,
        env={
            **kept,
            "NODIUS_DB": f"sqlite:{copy / 'nodius.db'}",
            "PYTHONPATH": f"{copy}{os.pathsep}{ROOT}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
