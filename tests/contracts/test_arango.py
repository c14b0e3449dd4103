"""A database in ArangoDB keeps every contract, through python-arango over HTTP."""

from __future__ import annotations

import pytest

from datasources.arango import ArangoDatabase, SearchLimits, parse_address
from tests.contracts.base import Factory
from tests.contracts.graph_source import DurableContract, GraphSourceContract
from tests.support.arango_synced import SyncedDatabase

NOTHING_IS_SMALL = SearchLimits(exact=-1, sums_fresh_s=0)


class OnArango:
    @pytest.fixture
    def factory(self, arango_address: str) -> Factory:
        return lambda: ArangoDatabase(parse_address(arango_address))


class TestArangoSource(OnArango, GraphSourceContract):
    pass


@pytest.mark.slow
class TestArangoSourceOfLargeGraphs(GraphSourceContract):
    """View and vector index answer, else exact cosine."""

    @pytest.fixture
    def factory(self, arango_address: str) -> Factory:
        return lambda: SyncedDatabase(parse_address(arango_address), limits=NOTHING_IS_SMALL)


class TestArangoDurability(OnArango, DurableContract):
    pass
