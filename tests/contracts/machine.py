"""A state machine that does the same to a database under test and to the in-memory one.

After any sequence of changes, right or refused, both must answer every question alike. A subclass
supplies `open_tested`, and says what more may be done to its database and checked of it.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from datasources.base import Database, MutableGraphDataSource, Record, RecordWrite
from datasources.errors import SourceError
from datasources.hits import Hit, VectorQuery
from datasources.mock import MemoryDatabase
from datasources.types import ROOT_WORKSPACE, Mutation
from tests.contracts import answers, plans
from tests.contracts.samples import a_graph, assert_found, assert_same_hits, floats, plain, snapshot
from tests.contracts.searches import search_text, search_vectors

T = TypeVar("T")
# Mostly one graph, so that there is something in it.
workspaces = st.sampled_from([plans.WORKSPACES[0]] * 4 + plans.WORKSPACES)
graphs = st.sampled_from([plans.GRAPHS[0]] * 4 + plans.GRAPHS)
keys = plans.few(st.sampled_from([*plans.NODES, "nobody"]), 5)
limits = st.sampled_from([0, 1, 2, 3, 5, 50])
fields = st.sampled_from(["content", "name"])
record_keys = st.sampled_from(["k1", "k2", "é"])
record_data = st.fixed_dictionaries(
    {},
    optional={name: st.sampled_from(plans.STATUSES) for name in ("status", "createdTime", "note")},
)
revisions = st.sampled_from(["right", "right", "none", "wrong"])
choices_of_version = st.sampled_from(["current", "current", "current", "none", "stale"])
record_writes = st.lists(
    st.tuples(record_keys, choices_of_version, st.none() | record_data),
    max_size=2,
    unique_by=lambda write: write[0],
)
some_writes = st.just([]) | record_writes
Name = tuple[str, str]
Versions = tuple[str | None, str | None]
Writes = list[tuple[str, str, dict[str, Any] | None]]


class SourceMachine(RuleBasedStateMachine):
    """Compares answers and errors. `same` is the one way to do something to both."""

    exact_bm25 = True

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="machine-"))
        self.runner = asyncio.Runner()
        self.broken = False
        self.oracle: Database = MemoryDatabase()
        self.tested = self.runner.run(answers.entered(self.open_tested()))
        # Versions are opaque and differ between databases: current, and one that is no longer.
        self.current: dict[Name, Versions] = {}
        self.stale: dict[Name, Versions] = {}

    def open_tested(self) -> Database:
        """Return the database under test, not yet opened; what it stores is in `folder`."""
        raise NotImplementedError

    async def maintain(self, source: MutableGraphDataSource, graph: str) -> None:
        """Do what may be done to a graph besides, without changing an answer."""

    def check_stored(self) -> None:
        """Look at what the closed database under test has left behind."""

    def teardown(self) -> None:
        try:
            if not self.broken:  # else what follows would hide the first error
                self.compare_all()
        finally:
            self.runner.run(self.tested.__aexit__(None, None, None))
            self.runner.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def compare_all(self) -> None:
        for workspace in plans.WORKSPACES:
            for graph in plans.GRAPHS:
                self.everything_reads_the_same(workspace, graph)
        self.answers_are_the_same()
        self.runner.run(self.tested.__aexit__(None, None, None))
        self.check_stored()

    def outcome(
        self, database: Database, do: Callable[[Database], Awaitable[T]]
    ) -> T | type[SourceError]:
        try:
            return self.runner.run(answers.awaited(do(database)))
        except SourceError as exc:
            return type(exc)
        except BaseException:
            self.broken = True
            raise

    def same(self, do: Callable[[Database], Awaitable[T]]) -> T | type[SourceError]:
        """Do it to both databases and compare; the one answer, or the one class of error."""
        expected = self.outcome(self.oracle, do)
        found = self.outcome(self.tested, do)
        assert found == expected
        return found

    @initialize(plan=plans.starts)
    def start(self, plan: plans.Plan) -> None:
        self.create_graph("acme", "flow", "acme")
        self.change("acme", "flow", plan, "right", [])
        self.look_after("acme", "flow")

    # Changes

    @rule(workspace=workspaces, graph=graphs, owner=workspaces)
    def create_graph(self, workspace: str, graph: str, owner: str) -> None:
        new = a_graph(graph, owner, description="new")
        self.same(lambda db: answers.document(db.source(workspace).create_graph(new)))

    @rule(workspace=workspaces, graph=graphs, really=st.sampled_from([False, False, False, True]))
    def delete_graph(self, workspace: str, graph: str, really: bool) -> None:
        if really:
            self.same(lambda db: db.source(workspace).delete_graph(graph))

    @rule(
        workspace=workspaces, graph=graphs, plan=plans.plans, expected=revisions, writes=some_writes
    )
    def change(
        self, workspace: str, graph: str, plan: plans.Plan, expected: str, writes: Writes
    ) -> None:
        mutation = plan.mutation(graph, workspace)
        found = self.outcome(self.oracle, lambda db: db.source(workspace).get_graph(graph))
        revision = 0 if isinstance(found, type) else found.revision
        if plan.sane and not isinstance(found, type):
            mutation = self.fitting(workspace, mutation)
        wanted = {"right": revision, "none": None, "wrong": revision + 1}[expected]
        self.write_both(
            workspace,
            writes,
            lambda db, joined: db.source(workspace).apply(
                mutation, expected_revision=wanted, records=joined
            ),
        )

    def fitting(self, workspace: str, mutation: Mutation) -> Mutation:
        source = self.oracle.source(workspace)
        key = mutation.graph_key

        async def stored() -> plans.Stored:
            return plans.Stored(
                graph=await source.get_graph(key),
                nodes={node.key: node.sheet for node in await source.get_nodes(key)},
                edges=await source.get_edges(key),
                configs={
                    c.key for c in await source.get_node_configs() if c.workspace == workspace
                },
            )

        return plans.made_to_fit(mutation, self.runner.run(stored()))

    @rule(workspace=workspaces, graph=graphs, batch=plans.few(plans.vectors))
    def embed(self, workspace: str, graph: str, batch: list[Any]) -> None:
        self.same(lambda db: db.source(workspace).put_embeddings(graph, batch))

    @rule(
        workspace=st.sampled_from([*plans.WORKSPACES, ROOT_WORKSPACE]),
        owned=st.booleans() | st.just(True),
        config=plans.configs,
    )
    def put_type(self, workspace: str, owned: bool, config: Mapping[str, Any]) -> None:
        config_document = plans.a_config(workspace if owned else "elsewhere", config)
        self.same(lambda db: db.source(workspace).put_node_config(config_document))

    # Records

    def version(self, workspace: str, key: str, choice: str) -> Versions:
        nothing: Versions = (None, None)
        if choice == "none":
            return nothing
        versions = self.current if choice == "current" else self.stale
        return versions.get((workspace, key), nothing)

    def write_both(
        self,
        workspace: str,
        writes: Writes,
        do: Callable[[Database, list[RecordWrite]], Awaitable[T]],
    ) -> None:
        """Do what writes records too, with each database's own versions; then learn
        the new ones.
        """
        outcomes: list[Any] = []
        for place, database in enumerate((self.oracle, self.tested)):
            joined = [
                RecordWrite(
                    kind="approval",
                    key=key,
                    data=data,
                    expected_version=self.version(workspace, key, choice)[place],
                )
                for key, choice, data in writes
            ]
            outcomes.append(self.outcome(database, lambda db, joined=joined: do(db, joined)))
        assert outcomes[0] == outcomes[1]
        for key, _, _ in writes:
            self.learn(workspace, key)

    def learn(self, workspace: str, key: str) -> None:
        """Compare one record in both databases, and note its versions."""
        stored = [
            self.runner.run(answers.awaited(database.records(workspace).get("approval", key)))
            for database in (self.oracle, self.tested)
        ]
        assert answers.plain_record(stored[0]) == answers.plain_record(stored[1])
        now: Versions = (answers.version_of(stored[0]), answers.version_of(stored[1]))
        before = self.current.get((workspace, key), (None, None))
        assert (now[0] == before[0]) == (now[1] == before[1])
        if now != before:
            self.current[workspace, key] = now
            if before[0] is not None:
                self.stale[workspace, key] = before

    @rule(workspace=workspaces, key=record_keys, choice=choices_of_version, data=record_data)
    def put_record(self, workspace: str, key: str, choice: str, data: dict[str, Any]) -> None:
        async def put(database: Database, joined: list[RecordWrite]) -> None:
            (write,) = joined
            record = Record(kind="approval", key=key, data=data)
            await database.records(workspace).put(record, expected_version=write.expected_version)

        self.write_both(workspace, [(key, choice, data)], put)

    @rule(workspace=workspaces, key=record_keys, choice=choices_of_version)
    def delete_record(self, workspace: str, key: str, choice: str) -> None:
        async def delete(database: Database, joined: list[RecordWrite]) -> None:
            version = joined[0].expected_version or "never"
            await database.records(workspace).delete("approval", key, expected_version=version)

        self.write_both(workspace, [(key, choice, None)], delete)

    @rule(
        workspace=workspaces,
        where=st.dictionaries(
            st.sampled_from(["status", "status", "createdTime", "note"]),
            st.sampled_from([value for value in plans.STATUSES if value is not None]),
            max_size=2,
        ),
        order=st.sampled_from([None, "status", "createdTime"]),
        descending=st.booleans(),
        limit=limits,
    )
    def query_records(
        self, workspace: str, where: dict[str, Any], order: str | None, descending: bool, limit: int
    ) -> None:
        async def query(database: Database) -> list[Any]:
            found = await database.records(workspace).query(
                "approval", where, order_by=order, descending=descending, limit=limit
            )
            return [answers.plain_record(record) for record in found]

        self.same(query)

    # Questions

    @rule(workspace=workspaces, graph=graphs)
    def everything_reads_the_same(self, workspace: str, graph: str) -> None:
        self.same(lambda db: snapshot(db.source(workspace), graph))
        self.same(lambda db: answers.documents(db.source(workspace).list_graphs()))

    @rule(
        graph=graphs, sheet=st.sampled_from([None, "0", "1", "7"]), limit=st.sampled_from([1, 2, 3])
    )
    def pages_read_the_same(self, graph: str, sheet: str | None, limit: int) -> None:
        async def pages(database: Database) -> list[Any]:
            found: list[Any] = []
            after: str | None = None
            source = database.source("acme")
            while page := await source.get_nodes(graph, sheet=sheet, after=after, limit=limit):
                found.append([node.to_document() for node in page])
                after = page[-1].key
            after = None
            while edges := await source.get_edges(graph, sheet=sheet, after=after, limit=limit):
                found.append([edge.to_document() for edge in edges])
                after = edges[-1].key
            return [found, await answers.documents(source.get_edges(graph, sheet=sheet))]

        self.same(pages)

    @rule(graph=graphs, asked=keys, limit=st.none() | limits)
    def what_hangs_on_nodes_reads_the_same(
        self, graph: str, asked: list[str], limit: int | None
    ) -> None:
        async def read(database: Database) -> list[Any]:
            source = database.source("acme")
            return [
                await answers.documents(source.get_nodes_by_key(graph, asked)),
                await answers.documents(source.get_edges_of(graph, asked)),
                await source.get_links(graph, asked, limit=limit),
                await source.get_links(graph, plans.NODES, limit=limit),
                await source.get_vector_info(graph, asked),
                {key: plain(v) for key, v in (await source.get_vectors(graph, asked)).items()},
                await answers.documents(source.get_node_configs(plans.TYPES[:2])),
            ]

        self.same(read)

    @rule(
        graph=graphs,
        seeds=keys,
        depth=st.integers(0, 4),
        direction=st.sampled_from(["out", "in", "any"]),
        limit=limits,
    )
    def neighborhoods_are_the_same(
        self, graph: str, seeds: list[str], depth: int, direction: Any, limit: int
    ) -> None:
        async def read(database: Database) -> Any:
            found = await database.source("acme").get_neighborhood(
                graph, seeds, max_depth=depth, direction=direction, limit=limit
            )
            return answers.plain_subgraph(found)

        self.same(read)

    def answers_are_the_same(self) -> None:
        """Ask what every run should have asked of the graph that most was done to."""
        flow = plans.GRAPHS[0]
        self.what_hangs_on_nodes_reads_the_same(flow, plans.NODES[::-1], 4)
        for direction in ("out", "in", "any"):
            self.neighborhoods_are_the_same(flow, plans.NODES[:1], 2, direction, 5)
        for field in ("content", "name"):
            self.words_find_the_same(flow, " ".join(plans.WORDS), 50, field)
            for model in plans.MODELS:
                self.vectors_find_the_same(flow, ((1.0, 2.0), model), 50, -1.0, field)

    @rule(
        graph=graphs,
        query=plans.texts | st.sampled_from(plans.WORDS + plans.NODES),
        limit=limits,
        field=fields,
    )
    def words_find_the_same(self, graph: str, query: str, limit: int, field: Any) -> None:
        def search(most: int) -> Callable[[Database], Awaitable[list[Hit]]]:
            return lambda db: search_text(db.source("acme"), graph, query, limit=most, field=field)

        self.compare_hits(search(1000), search(limit), limit=limit, by_order=not self.exact_bm25)

    @rule(
        graph=graphs,
        query=plans.vector_queries,
        limit=limits,
        least=st.sampled_from([-1.0, 0.0, 0.3, 0.75]),
        field=fields,
    )
    def vectors_find_the_same(
        self, graph: str, query: Any, limit: int, least: float, field: Any
    ) -> None:
        values, model = query

        def search(most: int, score: float) -> Callable[[Database], Awaitable[list[Hit]]]:
            return lambda db: search_vectors(
                db.source("acme"),
                graph,
                VectorQuery(
                    vector=floats(*values), model=model, limit=most, min_score=score, field=field
                ),
            )

        self.compare_hits(
            search(1000, least - 1e-4), search(limit, least), limit=limit, min_score=least
        )

    def compare_hits(
        self,
        everything: Callable[[Database], Awaitable[list[Hit]]],
        asked: Callable[[Database], Awaitable[list[Hit]]],
        *,
        limit: int,
        min_score: float = 0.0,
        by_order: bool = False,
    ) -> None:
        exact = self.outcome(self.oracle, everything)
        found = self.outcome(self.tested, asked)
        if isinstance(exact, type) or isinstance(found, type):
            assert found == exact
        elif by_order:
            assert_found(found, exact, limit=limit)
        else:
            assert_same_hits(found, exact, limit=limit, min_score=min_score)

    # What only a durable database knows

    @rule()
    def open_again(self) -> None:
        self.runner.run(self.tested.__aexit__(None, None, None))
        self.tested = self.runner.run(answers.entered(self.open_tested()))

    @rule(workspace=workspaces, graph=graphs)
    def look_after(self, workspace: str, graph: str) -> None:
        self.outcome(self.tested, lambda db: self.maintain(db.source(workspace), graph))
