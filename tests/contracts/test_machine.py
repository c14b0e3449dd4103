"""The embedded database answers like the in-memory one whatever was done to both."""

from unittest.mock import patch

import pytest
from hypothesis import settings

from datasources.base import Database, MutableGraphDataSource
from datasources.sqlite import Limits, SqliteDatabase, change_log
from datasources.sqlite.source import SqliteSource
from tests.contracts.machine import SourceMachine
from tests.datasources.sqlite.recount import faults
from tests.support.profiles import examples


class _SqliteMachine(SourceMachine):
    limits = Limits()

    def open_tested(self) -> Database:
        return SqliteDatabase(self.folder / "graphs.db", limits=self.limits)

    async def maintain(self, source: MutableGraphDataSource, graph: str) -> None:
        assert isinstance(source, SqliteSource)
        await source.build_indexes(graph)

    def check_stored(self) -> None:
        assert faults(self.folder / "graphs.db") == []


class HeldMachine(_SqliteMachine):
    """Every graph is small."""


class _Indexed(_SqliteMachine):
    """Words are looked up in indexes; one that lags behind finds them all, and weighs them
    as they were.
    """

    exact_bm25 = False


class LargeMachine(_Indexed):
    """No graph is small: SQL and indexes alone, and these soon lag too far behind."""

    limits = Limits(held=-1)

    def __init__(self) -> None:
        self.few_behind = patch.object(change_log, "MAX_BEHIND", 3)
        self.few_behind.start()
        super().__init__()

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.few_behind.stop()


class CrossingMachine(_Indexed):
    """Graphs become large and small again; hardly anything stays in memory."""

    limits = Limits(held=6, memory=3_000)


TestHeld = HeldMachine.TestCase
TestLarge = LargeMachine.TestCase
TestCrossing = CrossingMachine.TestCase
USUAL = TestHeld.settings
for case in (TestHeld, TestLarge, TestCrossing):  # three machines share what one would be tried
    case.settings = settings(USUAL, max_examples=examples(1 / 5))
del case


class _Longer:
    settings = settings(USUAL, max_examples=examples(1 / 2))


@pytest.mark.slow
class TestHeldLonger(_Longer, TestHeld):
    pass


@pytest.mark.slow
class TestLargeLonger(_Longer, TestLarge):
    pass


@pytest.mark.slow
class TestCrossingLonger(_Longer, TestCrossing):
    pass
