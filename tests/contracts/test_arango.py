"""A database in ArangoDB keeps every contract, through python-arango over HTTP."""

from __future__ import annotations

import pytest

from datasources.arango import ArangoDatabase, parse_address
from tests.contracts.base import Factory
from tests.contracts.graph_source import DurableContract, GraphSourceContract
from tests.support.arango_synced import SyncedDatabase


class OnArango:
    @pytest.fixture
    def factory(self, arango_address: str) -> Factory:
        return lambda: ArangoDatabase(parse_address(arango_address))


@pytest.mark.slow
class TestArangoSource(OnArango, GraphSourceContract):
    """The quick suite compares the same answers with those of memory: test_arango_machine."""


@pytest.mark.slow
class TestArangoSourceOfLargeGraphs(GraphSourceContract):
    """View and vector index answer, else exact cosine."""

    exact_bm25 = False

    @pytest.fixture
    def factory(self, arango_address: str) -> Factory:
        return lambda: SyncedDatabase(parse_address(arango_address), exact_nodes=-1)


class TestArangoDurability(OnArango, DurableContract):
    pass
