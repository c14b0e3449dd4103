"""The `embed-nodes` command on ArangoDB: the old script's parameters, stops, faults, odd nodes."""

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from arango.database import StandardDatabase

from datasources.arango import ArangoDatabase, parse_address
from datasources.arango.layout import NODES
from datasources.hits import VectorQuery
from datasources.types import Mutation
from graphrag.embedding.refresh import EmbedReport, embed_nodes
from tests.cli.conftest import invoke, printed
from tests.contracts.samples import FLOW, a_graph, a_node
from tests.contracts.searches import search_vectors
from tests.support.arango import PASSWORD, ArangoServer
from tests.support.editor_database import GRAPH as EDITORS_GRAPH
from tests.support.editor_database import VECTOR_LENGTH, store_editor_database
from tests.support.editor_database import WORKSPACE as EDITORS_WORKSPACE
from tests.support.scripted_http import Answer, Request, ScriptedServer

WORKSPACE = "default"
NODES_OF_FLOW = 40


@pytest.fixture
def name(arango: ArangoServer, one_database: str, arango_address: str) -> str:
    """A prepared database with a graph of some nodes."""

    async def prepare() -> None:
        async with ArangoDatabase(parse_address(arango_address)) as database:
            source = database.source(WORKSPACE)
            await source.create_graph(a_graph(FLOW, WORKSPACE))
            nodes = [a_node(f"n{i:03}", data={"name": f"Step {i}"}) for i in range(NODES_OF_FLOW)]
            await source.apply(Mutation(graph_key=FLOW, put_nodes=nodes))

    asyncio.run(prepare())
    return one_database


class Embedder:
    """Embeds by length of text; `meanwhile` is run within each request."""

    model, dim = "by length", 2

    def __init__(self, meanwhile: Any = None) -> None:
        self.asked = 0
        self._meanwhile = meanwhile

    async def embed(self, texts: Any) -> Any:
        self.asked += 1
        if self._meanwhile is not None:
            await self._meanwhile(self.asked)
        return np.array([[1.0, len(text)] for text in texts], dtype=np.float32)

    async def aclose(self) -> None:
        return None


async def embedded(
    server: ArangoServer, name: str, embedder: Embedder, **options: Any
) -> EmbedReport:
    async with ArangoDatabase(parse_address(server.address(name))) as database:
        return await embed_nodes(database.source(WORKSPACE), embedder, batch=10, **options)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_parameters_of_the_old_script_name_the_database(
    arango: ArangoServer, name: str
) -> None:
    if arango.password != PASSWORD:
        pytest.skip("the password of this server is not for a command line")
    flags = ("--arangodb", arango.url, "--arangodb-name", name, "--arangodb-user", arango.user)
    flags += ("--arangodb-pass", arango.password, "--batch", "7", "--delay", "1", "--json")
    assert printed(invoke("embed-nodes", *flags, "--dry-run"))["embedded"] == NODES_OF_FLOW
    assert printed(invoke("embed-nodes", *flags, "--graph", FLOW))["embedded"] == NODES_OF_FLOW
    assert printed(invoke("embed-nodes", *flags))["skipped"] == NODES_OF_FLOW
    assert printed(invoke("embed-nodes", *flags, "--force"))["embedded"] == NODES_OF_FLOW


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--arangodb", "http://h:1", "--db", "memory:"), "give one of them"),
        (("--arangodb-name", "nodius"), "need --arangodb"),
        (("--arangodb-pass", "x"), "need --arangodb"),
        (("--arangodb", "ftp://h:1"), "http://HOST:8529"),
        (("--arangodb", "http://u:secret@h:1"), "--arangodb-user"),
        (("--arangodb", "http://h:1/path"), "http://HOST:8529"),
    ],
)
def test_parameters_that_contradict_each_other_are_refused(
    flags: tuple[str, ...], said: str
) -> None:
    assert said in invoke("embed-nodes", *flags, exits=2).stderr


async def test_what_a_stopped_run_stored_is_not_embedded_again(
    arango: ArangoServer, name: str
) -> None:
    async def stop(asked: int) -> None:
        if asked == 3:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await embedded(arango, name, Embedder(stop))
    report = await embedded(arango, name, again := Embedder())
    assert (report.skipped, report.embedded, again.asked) == (20, 20, 2)


async def test_a_vector_of_another_length_is_renewed_and_stops_nothing(
    arango: ArangoServer, name: str
) -> None:
    def damage(server: StandardDatabase) -> None:
        odd: list[Any] = [[1, 2, 3], "text", {"a": 1}, []]
        for number, value in enumerate(odd):
            fields = {"embedding": value, "embeddingModel": "older", "embeddingHash": "h"}
            server.collection(NODES).update({"_key": f"{FLOW}-n{number:03}", **fields})

    async with ArangoDatabase(parse_address(arango.address(name))) as database:
        await database.state.connection.run(damage)
        report = await embedded(arango, name, Embedder(), force=True)
        assert (report.embedded, report.failed) == (NODES_OF_FLOW, 0)
        vectors = await database.source(WORKSPACE).get_vectors(FLOW, [f"n{i:03}" for i in range(4)])
        assert {vector.content.size for vector in vectors.values()} == {2}
        assert len(vectors) == 4


async def test_vectors_of_the_editor_are_kept_adopted_by_their_length_or_renewed_by_force(
    arango: ArangoServer, name: str
) -> None:
    odd: list[Any] = [[3.0, 4.0], [1.0, 0.0], [1.0, 2.0, 3.0], "text"]

    def write(server: StandardDatabase) -> None:
        for number, value in enumerate(odd):
            server.collection(NODES).update({"_key": f"{FLOW}-n{number:03}", "embedding": value})

    async with ArangoDatabase(parse_address(arango.address(name))) as database:
        await database.state.connection.run(write)
        source = database.source(WORKSPACE)
        report = await embedded(arango, name, Embedder())
        assert (report.embedded, report.unmarked) == (NODES_OF_FLOW - 4, 4)
        assert (await embedded(arango, name, Embedder(), adopt=True, dry_run=True)).adopted == 2
        assert await source.get_vectors(FLOW, ["n000"]) == {}
        report = await embedded(arango, name, Embedder(), adopt=True)
        assert (report.adopted, report.unmarked, report.embedded) == (2, 2, 0)
        adopted = (await source.get_vectors(FLOW, ["n000"]))["n000"]
        assert adopted.content.tolist() == [3.0, 4.0]
        found = await search_vectors(
            source, FLOW, VectorQuery(vector=np.float32([3, 4]), model="by length", limit=1)
        )
        assert found[0].key == "n000"
        assert (await embedded(arango, name, Embedder(), force=True)).embedded == NODES_OF_FLOW
        assert (await embedded(arango, name, Embedder())).skipped == NODES_OF_FLOW


@pytest.mark.parametrize("action", ["drop", "drop-after", "status:503", "error:1200"])
async def test_a_fault_in_between_stops_no_run(
    arango_faults: ArangoServer, name: str, action: str
) -> None:
    async def fail(_: int) -> None:
        arango_faults.inject("/_api/cursor", action)

    report = await embedded(arango_faults, name, embedder := Embedder(fail))
    assert (report.embedded, report.failed, embedder.asked) == (NODES_OF_FLOW, 0, 4)


@pytest.fixture
def editors(arango: ArangoServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a database that the editor wrote, with its vectors, set up as documented."""
    place = arango.fresh()
    arango.call("POST", "/_api/database", {"name": place})
    store_editor_database(arango, place)
    address = arango.address(place)
    invoke("db", "init", "--db", address, exits=0)
    monkeypatch.setenv("NODIUS_DB", address)
    monkeypatch.setenv("NODIUS_WORKSPACE", EDITORS_WORKSPACE)
    yield place
    arango.drop(place)


def embedded_texts(request: Request) -> Answer:
    """Answers as OpenAI's service does, with vectors of the editor's length."""
    rows = [
        [float(len(text) + i % 7) for i in range(VECTOR_LENGTH)] for text in request.json["input"]
    ]
    return Answer(body={"data": [{"index": i, "embedding": row} for i, row in enumerate(rows)]})


def vectors_of(server: ArangoServer, place: str) -> dict[str, tuple[Any, Any]]:
    """Returns vector and model of each node."""
    query = f"FOR n IN {NODES} RETURN [n._key, n.embedding, n.embeddingModel]"
    found = server.call("POST", f"/_db/{place}/_api/cursor", {"query": query})["result"]
    return {key.removeprefix(f"{EDITORS_GRAPH}-"): (vector, model) for key, vector, model in found}


def test_the_first_vectors_are_not_stored_beside_the_editors_before_somebody_chose(
    arango: ArangoServer, editors: str
) -> None:
    before = vectors_of(arango, editors)
    planned = printed(invoke("embed-nodes", "--dry-run", "--json"))
    assert (planned["unmarked"], planned["embedded"]) == (9, 2)
    refused = invoke("embed-nodes", exits=2).stderr
    assert "9 nodes have vectors of 1,536 numbers that name no model" in refused
    for choice in ("--adopt MODEL", "--force", "--beside"):
        assert choice in refused
    wrong = invoke("embed-nodes", "--adopt", "wordllama-l2-256", exits=2).stderr
    assert "makes vectors of 256 numbers, but the stored ones have 1,536" in wrong
    assert vectors_of(arango, editors) == before
    assert printed(invoke("embed-nodes", "--beside", "--json"))["embedded"] == 2
    after = vectors_of(arango, editors)
    assert {key: vector for key, vector in after.items() if before[key][0]} == {
        key: vector for key, vector in before.items() if vector[0]
    }
    assert (
        printed(invoke("embed-nodes", "--json"))["unmarked"] == 9
    )  # it was chosen, and is not asked again


def test_adopted_vectors_keep_the_numbers_that_the_editor_wrote(
    arango: ArangoServer, editors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = vectors_of(arango, editors)
    with ScriptedServer() as service:
        # names of the adopted, then what had no vector
        service.play(embedded_texts, embedded_texts)
        monkeypatch.setenv("NODIUS_EMBEDDINGS", "openai")
        monkeypatch.setenv("NODIUS_EMBEDDINGS_MODEL", "text-embedding-3-small")
        monkeypatch.setenv("NODIUS_EMBEDDINGS_BASE_URL", service.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        report = printed(invoke("embed-nodes", "--adopt", "text-embedding-3-small", "--json"))
        assert (report["adopted"], report["embedded"], report["unmarked"]) == (9, 2, 0)
        after = vectors_of(arango, editors)
        assert printed(invoke("embed-nodes", "--json"))["skipped"] == 11
    assert {model for _, model in after.values()} == {"text-embedding-3-small"}
    assert all(after[key][0] == vector for key, (vector, _) in before.items() if vector)
