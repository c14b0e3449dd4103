"""What every contract class builds on: a database of the implementation under test."""

from collections.abc import AsyncIterator, Callable

import pytest

from datasources.base import Database, MutableGraphDataSource
from tests.contracts.samples import make_flow

Factory = Callable[[], Database]


class Contract:
    """A subclass supplies `factory`: a function that returns its database, not yet opened.

    Within one test every call of it must mean the same (for the first call: empty) database.
    """

    @pytest.fixture
    def factory(self) -> Factory:
        raise NotImplementedError(f"{type(self).__name__} must supply the fixture `factory`")

    @pytest.fixture
    async def database(self, factory: Factory) -> AsyncIterator[Database]:
        async with factory() as database:
            yield database

    @pytest.fixture
    async def source(self, database: Database) -> MutableGraphDataSource:
        """The sample graph `flow`, in workspace `acme`, at revision 1."""
        return await make_flow(database)
