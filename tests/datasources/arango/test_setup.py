"""Set-up: any number of times, beside what Nodius wrote, from any earlier state."""

from collections.abc import Iterator
from typing import Any

import pytest
from arango.cluster import Cluster
from arango.database import StandardDatabase

from datasources.arango import ArangoDatabase, parse_address, setup
from datasources.arango.layout import CONFIGS, EDGES, GRAPHS, META, NODES, VIEW
from datasources.arango.setup import VERSION
from datasources.errors import DatabaseUnprepared, DatabaseVersion, SourceUnavailable
from datasources.types import Mutation
from tests.contracts.samples import keys_of
from tests.contracts.searches import search_text
from tests.datasources.arango.kit import TIMEOUT_S, TOO_LONG_MS
from tests.support.arango import ArangoServer
from tests.support.editor_database import GRAPH, WORKSPACE, editor_documents, store_editor_database

BROKEN = "broken"
STORED = ("nodius_graphs", "nodius_nodes", "nodius_edges", "nodius_node_config")


def node_document(key: str) -> dict[str, Any]:
    """Returns a node as the editor stored it."""
    return editor_documents()[NODES][f"{GRAPH}-{key}"]


class Place:
    """A database that only Nodius has written to."""

    def __init__(self, server: ArangoServer) -> None:
        self.server, self.name = server, server.fresh()
        self.address = server.address(self.name)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return self.server.call(method, f"/_db/{self.name}{path}", body)

    def fill(self) -> None:
        """Stores what the editor wrote, and a node that nobody can read."""
        self.server.call("POST", "/_api/database", {"name": self.name})
        store_editor_database(self.server, self.name)
        broken = {**node_document("sort-stats"), "_key": BROKEN, "type": ["no", "text"]}
        self.call("POST", f"/_api/document/{NODES}", broken)

    def documents(self) -> dict[str, list[dict[str, Any]]]:
        query = "FOR d IN @@c SORT d._key RETURN UNSET(d, '_rev', '_id', 'nodiusText')"
        return {
            name: self.call("POST", "/_api/cursor", {"query": query, "bindVars": {"@c": name}})[
                "result"
            ]
            for name in STORED
        }

    def opened(self, *, prepared: bool = True) -> ArangoDatabase:
        return ArangoDatabase(parse_address(self.address), prepared=prepared)

    async def set_up(self) -> list[str]:
        async with self.opened(prepared=False) as database:
            return await database.set_up()


@pytest.fixture
def place(arango: ArangoServer) -> Iterator[Place]:
    place = Place(arango)
    yield place
    arango.drop(place.name)


async def test_a_second_time_there_is_nothing_to_do(place: Place) -> None:
    first = await place.set_up()
    assert f"made the database {place.name}" in first
    assert f"brought the database to version {VERSION}" in first
    assert await place.set_up() == []


async def test_a_dry_run_says_what_will_be_made_and_makes_nothing(place: Place) -> None:
    async with place.opened(prepared=False) as database:
        said = await database.set_up(dry_run=True)
        assert said[0] == f"would make the database {place.name}"
        place.fill()
        before = place.documents()
        said = await database.set_up(dry_run=True)
        assert "would give words to 12 nodes" in said  # one of them cannot be read
        assert "would make the collection nodius_nodes" not in said
        assert place.documents() == before
        done = await database.set_up()
        made = {line for line in done if line.startswith("made ")}
        assert {f"would make {line.removeprefix('made ')}" for line in made} <= set(said)
        assert f"would bring the database to version {VERSION}" in said
        place.call("DELETE", f"/_api/document/{NODES}/broken")
        assert await database.set_up(dry_run=True) == []


async def test_a_server_too_old_is_refused_before_anything_is_made(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "version_of", lambda _: (3, 10, 14))
    with pytest.raises(SourceUnavailable, match=r"too old: statements need 3\.11"):
        await place.set_up()
    assert place.name not in place.server.call("GET", "/_api/database")["result"]


@pytest.mark.parametrize("sharding", ["", "flexible", None])
async def test_a_database_spread_over_servers_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch, sharding: str | None
) -> None:
    await place.set_up()
    said = {} if sharding is None else {"sharding": sharding}  # None: an answer that does not say
    monkeypatch.setattr(StandardDatabase, "properties", lambda _: {"name": place.name, **said})
    monkeypatch.setattr(Cluster, "server_role", lambda _: "COORDINATOR")
    async with place.opened(prepared=False) as database:
        for dry_run in (False, True):
            with pytest.raises(SourceUnavailable, match="spread over several servers"):
                await database.set_up(dry_run=dry_run)
        (finding,) = await database.check()
    assert (finding.status, "OneShard" in finding.detail) == ("error", True)
    with pytest.raises(SourceUnavailable, match="OneShard"):
        await place.opened().__aenter__()
    monkeypatch.setattr(
        StandardDatabase, "properties", lambda _: {"name": place.name, "sharding": "single"}
    )
    async with place.opened() as database:
        assert await database.set_up() == []


@pytest.mark.parametrize("path", ["/_api/cursor", "/_api/view"])
async def test_a_check_that_may_not_look_says_so(
    arango_faults: ArangoServer, place: Place, path: str
) -> None:
    await place.set_up()
    async with place.opened() as database:
        arango_faults.inject(path, "error:11", 1_000)
        findings = await database.check()
    said = " ".join(finding.detail for finding in findings if finding.status == "error")
    assert "refuses the sign-in" in said or "error 11" in said


async def test_what_was_removed_is_made_again(place: Place) -> None:
    await place.set_up()
    place.call("DELETE", f"/_api/view/{VIEW}")
    place.call("DELETE", "/_api/index/nodius_nodes/ix_rag_key")
    place.call("DELETE", "/_api/collection/nodius_ai_leases")
    done = "\n".join(await place.set_up())
    for part in (
        f"the View {VIEW}",
        "the index ix_rag_key of nodius_nodes",
        "collection nodius_ai_leases",
    ):
        assert part in done
    assert await place.set_up() == []


async def test_an_index_of_our_name_with_other_fields_is_made_again(place: Place) -> None:
    await place.set_up()
    found = place.call("GET", f"/_api/index?collection={NODES}")["indexes"]
    (index,) = [index for index in found if index["name"] == "ix_rag_type"]
    place.call("DELETE", f"/_api/index/{index['id']}")
    old = {"type": "persistent", "name": "ix_rag_type", "fields": ["type"]}
    place.call("POST", f"/_api/index?collection={NODES}", old)
    assert await place.set_up() == [f"made the index ix_rag_type of {NODES}"]
    found = place.call("GET", f"/_api/index?collection={NODES}")["indexes"]
    assert [i["fields"] for i in found if i["name"] == "ix_rag_type"] == [index["fields"]]


async def test_indexes_that_another_program_made_unnamed_are_not_made_again(place: Place) -> None:
    place.fill()
    for collection, fields in (
        (GRAPHS, ["workspace"]),
        (EDGES, ["graphKey", "sheet"]),
        (NODES, ["graphKey", "type"]),
    ):
        index = {"type": "persistent", "fields": fields, "unique": False, "sparse": False}
        place.call("POST", f"/_api/index?collection={collection}", index)
    sparse = {"type": "persistent", "fields": ["workspace"], "sparse": True}
    place.call("POST", f"/_api/index?collection={CONFIGS}", sparse)
    place.call("DELETE", f"/_api/document/{NODES}/{BROKEN}")
    done = "\n".join(await place.set_up())
    assert f"the index ix_rag_config of {CONFIGS}" in done  # a sparse one does not find all
    for name in ("ix_rag_workspace of nodius_graphs", "ix_rag_graph of", "ix_rag_type of"):
        assert name not in done
    assert await place.set_up() == []
    async with place.opened() as database:
        findings = {finding.name: finding for finding in await database.check()}
    assert findings["set-up"].status == findings["statements"].status == "ok"


async def test_documents_of_nodius_stay_as_they_are(place: Place) -> None:
    place.fill()
    before = place.documents()
    done = await place.set_up()
    assert place.documents() == before
    assert "gave words to 11 nodes" in done
    left_out = "left out 1 nodes that are not readable"
    assert left_out in done
    assert await place.set_up() == [left_out]


async def test_a_graph_of_the_editor_is_read_searched_and_changed(place: Place) -> None:
    place.fill()
    place.call("DELETE", f"/_api/document/{NODES}/{BROKEN}")
    place.call("PATCH", f"/_api/document/{NODES}/{GRAPH}-root2", {"futureField": {"kept": True}})
    await place.set_up()
    before = place.call("GET", f"/_api/document/{NODES}/{GRAPH}-root2")
    async with place.opened() as database:
        source = database.source(WORKSPACE)
        assert keys_of(await source.list_graphs()) == [GRAPH]
        assert len(await source.get_nodes(GRAPH)) == 11
        (root,) = await source.get_nodes_by_key(GRAPH, ["root2"])
        assert root.to_document()["futureField"] == {"kept": True}
        assert "embedding" not in root.to_document()
        assert keys_of(await search_text(source, GRAPH, "league's players", limit=1)) == [
            "fetch-api"
        ]
        assert "fetch-api" in keys_of(
            await search_text(source, GRAPH, "HTTP request", limit=5)
        )  # of its type
        around = await source.get_neighborhood(GRAPH, ["root2"], max_depth=1, limit=5)
        assert sorted(keys_of(around.nodes)) == ["entry-form", "fetch-api", "root2"]
        assert await source.apply(Mutation(graph_key=GRAPH, put_nodes=[root.replace(pos_x=9)])) == 1
        assert keys_of(await source.get_edges_of(GRAPH, ["root2"])) == [
            "edge-entry-root",
            "edge-root-fetch",
        ]
    stored = place.call("GET", f"/_api/document/{NODES}/{GRAPH}-root2")
    assert (stored["posX"], stored["futureField"]) == (9, {"kept": True})
    assert stored["embedding"] == before["embedding"]


@pytest.mark.slow
async def test_what_the_editor_writes_later_is_found_by_its_text_at_once(place: Place) -> None:
    place.fill()
    place.call("DELETE", f"/_api/document/{NODES}/{BROKEN}")
    await place.set_up()
    changed = {**node_document("filter-active"), "process": "notifyWarehouse()"}
    place.call("PUT", f"/_api/document/{NODES}/{GRAPH}-filter-active", changed)
    place.call("PATCH", f"/_api/document/{NODES}/{GRAPH}-root2", {"data": {"name": "Ship parcels"}})
    async with place.opened() as database:
        source = database.source(WORKSPACE)
        assert keys_of(await search_text(source, GRAPH, "warehouse", limit=5)) == ["filter-active"]
        assert keys_of(await search_text(source, GRAPH, "ship", limit=5, field="name")) == ["root2"]
        findings = {finding.name: finding for finding in await database.check()}
        assert findings["words"].status == "warning"
        assert findings["words"].detail.startswith("2 nodes")
    async with place.opened() as database:
        assert await database.set_up() == ["gave words to 2 nodes"]
        findings = {finding.name: finding for finding in await database.check()}
    assert findings["words"].status == "ok"


async def test_a_database_that_is_not_set_up_says_so(place: Place) -> None:
    with pytest.raises(DatabaseUnprepared, match="nodius db init"):
        await place.opened().__aenter__()
    place.fill()
    with pytest.raises(DatabaseUnprepared, match="nodius db init"):
        await place.opened().__aenter__()


async def test_a_newer_database_is_left_alone(place: Place) -> None:
    await place.set_up()
    place.call("PUT", f"/_api/document/{META}/schema", {"version": VERSION + 1})
    for prepared in (True, False):
        with pytest.raises(DatabaseVersion, match="upgrade the program"):
            async with place.opened(prepared=prepared) as database:
                await database.set_up()


async def test_a_check_names_what_is_missing(place: Place) -> None:
    await place.set_up()
    place.call("DELETE", "/_api/index/nodius_nodes/ix_rag_key")
    place.call("DELETE", "/_api/index/nodius_graphs/ix_rag_workspace")
    async with place.opened() as database:
        findings = {finding.name: finding for finding in await database.check()}
    assert findings["set-up"].status == "error"
    assert "index ix_rag_key of nodius_nodes" in findings["set-up"].detail
    assert findings["set-up"].fix == "run `nodius db init`"
    assert findings["statements"].status == "warning"
    assert "GRAPHS" in findings["statements"].detail


async def test_a_check_of_no_server_is_a_finding(arango: ArangoServer) -> None:
    address = parse_address(arango.address("nodius", place="127.0.0.1:1"))
    async with ArangoDatabase(address, prepared=False) as database:
        (finding,) = await database.check()
        assert finding.status == "error"
        assert "no server answers there" in finding.detail


async def found(place: Place) -> tuple[str, str]:
    async with place.opened(prepared=False) as database:
        finding = {finding.name: finding for finding in await database.check()}["set-up"]
    return finding.status, finding.detail


@pytest.mark.slow
async def test_a_view_without_its_link_gets_it(place: Place) -> None:
    await place.set_up()
    place.call("PUT", f"/_api/view/{VIEW}/properties", {"links": {}})
    assert await found(place) == ("error", f"missing: the link of the View {VIEW} with {NODES}")
    assert await place.set_up() == [f"made the link of the View {VIEW} with {NODES}"]
    assert (await found(place))[0] == "ok"


@pytest.mark.parametrize("path", ["_api/index", pytest.param("_api/view", marks=pytest.mark.slow)])
async def test_an_index_that_takes_long_to_build_is_waited_for(
    arango_faults: ArangoServer, place: Place, path: str
) -> None:
    async with ArangoDatabase(
        parse_address(f"{place.address}?timeout={TIMEOUT_S}"), prepared=False
    ) as database:
        arango_faults.inject(path, f"delay:{TOO_LONG_MS}")
        assert f"made the View {VIEW}" in await database.set_up()
