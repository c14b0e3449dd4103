"""PostgreSQL answers like the in-memory database whatever was done to both."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from datasources.base import Database
from datasources.postgres import PostgresDatabase, parse_address
from datasources.postgres.source import HoldingLimits
from tests.contracts.machine import SourceMachine
from tests.datasources.postgres.recount import faults
from tests.support.postgres import TEMPLATE, PostgresServer
from tests.support.profiles import examples

pytestmark = pytest.mark.slow


def _machine(server: PostgresServer, limits: HoldingLimits, *, exact: bool) -> type[SourceMachine]:
    """Returns a machine whose every run has a database of its own on the server."""

    class Machine(SourceMachine):
        exact_bm25 = exact

        def __init__(self) -> None:
            self.name = server.create_database(template=TEMPLATE)
            super().__init__()

        def open_tested(self) -> Database:
            return PostgresDatabase(parse_address(server.url(self.name)), limits=limits)

        def check_stored(self) -> None:
            assert faults(server.url(self.name)) == []

        def teardown(self) -> None:
            try:
                super().teardown()
            finally:
                server.drop_database(self.name)

    return Machine


@pytest.mark.parametrize(
    "limits",
    [HoldingLimits(), HoldingLimits(held=-1), HoldingLimits(held=6, memory=3_000)],
    ids=["held", "large", "crossing"],
)
def test_postgres_answers_like_memory(
    postgres_server: PostgresServer, limits: HoldingLimits
) -> None:
    machine = _machine(postgres_server, limits, exact=True)
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples(1 / 3), deadline=None)
    )


def test_pgvector_answers_like_memory(pgvector_server: PostgresServer) -> None:
    machine = _machine(pgvector_server, HoldingLimits(held=-1), exact=True)
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples(1 / 3), deadline=None)
    )
