"""Runs commands of the program in this process."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from typer import testing

from cli.main import app

_ROOMS = ("cli", "datasources", "graphrag", "server", "tools")
# Typer would build every command for each call, which takes longer than most commands do.
testing._get_command = cache(testing._get_command)


def run_command(
    *arguments: object,
    typed: str | None = None,
    exits: int | None = None,
    catch_exceptions: bool = False,
) -> Any:
    """Run a command, which must end with the code of `exits` where one is given.

    What nobody foresaw is raised, not turned into an exit code.
    """
    words = [str(part) for part in arguments]
    with logging_as_it_was():
        done = testing.CliRunner().invoke(
            app, words, input=typed, catch_exceptions=catch_exceptions
        )
    assert exits in (None, done.exit_code), done.output
    return done


@contextmanager
def logging_as_it_was() -> Iterator[None]:
    """Take back what a command set for the whole program: later tests look for events
    of their own.
    """
    before = [
        (log, log.handlers[:], log.level, log.propagate) for log in map(logging.getLogger, _ROOMS)
    ]
    try:
        yield
    finally:
        for log, handlers, level, propagate in before:
            log.handlers[:] = handlers
            log.setLevel(level)
            log.propagate = propagate
