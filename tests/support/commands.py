"""Runs commands of the program in this process."""

from __future__ import annotations

from functools import cache
from typing import Any

from typer import testing

from cli.main import app

# Typer would build every command anew for each call, which takes longer than most commands do.
testing._get_command = cache(testing._get_command)


def run_command(*arguments: object, typed: str | None = None, catch_exceptions: bool = False) -> Any:
    """Run a command; what nobody foresaw is raised, not turned into an exit code."""
    words = [str(part) for part in arguments]
    return testing.CliRunner().invoke(app, words, input=typed, catch_exceptions=catch_exceptions)
