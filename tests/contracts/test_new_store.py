"""A new store is one module: it passes the contract suite, and a question is answered from it."""

import ast
from pathlib import Path

import pytest

from datasources.mock import open_nba
from datasources.mock.source import NBA_GRAPH, NBA_WORKSPACE
from datasources.types import Mutation
from graphrag.embedding.local import LocalEmbedder
from graphrag.embedding.refresh import embed_nodes
from graphrag.retrieval.retriever import Retriever
from tests.contracts.base import Factory
from tests.contracts.graph_source import GraphSourceContract
from tests.contracts.records import JoinedRecordsContract, RecordQueryContract, RecordStoreContract
from tests.support import json_store
from tests.support.json_store import JsonDatabase


class _New:
    @pytest.fixture
    def factory(self) -> Factory:
        database = JsonDatabase()
        return lambda: database


@pytest.mark.slow  # it reads a graph whole for every question
class TestNewSource(_New, GraphSourceContract):
    scored_together = False


class TestNewRecords(_New, RecordStoreContract):
    pass


class TestNewRecordQueries(_New, RecordQueryContract):
    pass


class TestNewJoinedRecords(_New, JoinedRecordsContract):
    pass


async def test_a_question_is_answered_from_a_new_store_as_from_memory() -> None:
    memory = open_nba().source(NBA_WORKSPACE)
    source = JsonDatabase().source(NBA_WORKSPACE)
    content = Mutation(
        graph_key=NBA_GRAPH,
        put_nodes=await memory.get_nodes(NBA_GRAPH),
        put_edges=await memory.get_edges(NBA_GRAPH),
        put_configs=await memory.get_node_configs(),
    )
    await source.create_graph(await memory.get_graph(NBA_GRAPH), content)
    for store in (memory, source):
        await embed_nodes(store, LocalEmbedder())
    question = "What happens when fetching the players fails?"
    expected, found = [
        await Retriever(store, LocalEmbedder()).retrieve(NBA_GRAPH, question)
        for store in (memory, source)
    ]
    assert found.nodes
    assert [(s.node.key, s.score, s.reasons) for s in found.nodes] == [
        (s.node.key, s.score, s.reasons) for s in expected.nodes
    ]
    assert [edge.key for edge in found.edges] == [edge.key for edge in expected.edges]


def test_a_new_store_needs_the_room_of_data_sources_alone() -> None:
    tree = ast.parse(Path(json_store.__file__).read_text(encoding="utf-8"))
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    rooms = {module.partition(".")[0] for module in modules}
    assert rooms.isdisjoint({"graphrag", "tools", "server", "cli", "tests"})
    adapters = ("datasources.mock", "datasources.sqlite", "datasources.arango")
    assert not [module for module in modules if module.startswith(adapters)]
