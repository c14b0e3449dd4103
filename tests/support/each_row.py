"""Runs the rows of a table in one test: all of them, and every row that fails is named.

For rows that share nothing: a row costs what it checks, not what a test of its own costs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any

import pytest

SHOWN = 300
"""Characters of a row in a failure."""


def each_row(names: str, *rows: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what makes one test of a function and its rows: values, or tuples where there
    are several names.

    Fixtures are made once for all rows: the rows must not change them. Rows that take time to find
    are given as one function, which is called when the test runs.
    """
    arguments = [name.strip() for name in names.split(",")]

    def named(found: Iterable[Any]) -> list[dict[str, Any]]:
        return [
            dict(zip(arguments, row if len(arguments) > 1 else (row,), strict=True))
            for row in found
        ]

    given = None if len(rows) == 1 and callable(rows[0]) else named(rows)

    def table() -> list[dict[str, Any]]:
        return named(rows[0]()) if given is None else given

    def made(test: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def tried_async(**fixtures: Any) -> None:
                failures = _Failures()
                for row in table():
                    with failures.of(row):
                        await test(**fixtures, **row)
                failures.check()

            return _without(arguments, test, tried_async)

        @functools.wraps(test)
        def tried(**fixtures: Any) -> None:
            failures = _Failures()
            for row in table():
                with failures.of(row):
                    test(**fixtures, **row)
            failures.check()

        return _without(arguments, test, tried)

    return made


def _without(arguments: list[str], test: Callable[..., Any], tried: Any) -> Callable[..., Any]:
    """Let pytest see the fixtures of a test and not its row."""
    signature = inspect.signature(test)
    fixtures = [one for name, one in signature.parameters.items() if name not in arguments]
    tried.__signature__ = signature.replace(parameters=fixtures)
    return tried


class _Failures:
    def __init__(self) -> None:
        self._rows, self._found = 0, list[BaseException]()

    @contextmanager
    def of(self, row: dict[str, Any]) -> Generator[None]:
        self._rows += 1
        try:
            yield
        except (Exception, pytest.fail.Exception) as exc:  # noqa: BLE001 - any failure is kept
            shown = repr(row)
            exc.add_note(f"the row: {shown if len(shown) <= SHOWN else shown[:SHOWN] + '…'}")
            self._found.append(exc)

    def check(self) -> None:
        assert self._rows, "a table without rows shows nothing"
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            raise BaseExceptionGroup(f"{len(self._found)} rows fail", self._found)
