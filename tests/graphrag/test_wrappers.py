"""Whatever wraps a Protocol raises the Protocol's errors only, and nothing after a
commit undoes success.
"""

import importlib
import inspect
import pkgutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, get_type_hints

import pytest

import datasources
import graphrag
from datasources import errors as data_errors
from datasources.base import GraphDataSource, MutableGraphDataSource
from datasources.errors import SourceError
from datasources.memory_overlay import MemoryOverlay
from datasources.mock import MemoryDatabase
from datasources.search import SearchRequest
from datasources.types import Mutation
from graphrag.app.replaceable_provider import ReplaceableProvider
from graphrag.approvals import Approve
from graphrag.approvals.pending_changes import PendingView
from graphrag.embedding import embedder
from graphrag.embedding.embedder import EmbeddingError, EmbeddingProvider
from graphrag.embedding.queue import EmbeddingQueue
from graphrag.embedding.workspace_embedder import QueryEmbedder, WorkspaceEmbedder
from graphrag.live import LiveGraphs
from graphrag.live.errors import LiveElsewhere
from graphrag.live.instruction_batch import apply_instructions
from graphrag.live.live_source import LiveSource, SavedSource
from graphrag.llm import errors as model_errors
from graphrag.llm.base import LLMProvider, ModelOptions, UsageReport, UserMessage
from graphrag.llm.errors import ModelError
from graphrag.llm.metered import MeteredEmbedder, ModelRequest, metered_call
from graphrag.llm.registry import Pricing
from graphrag.llm.usage_meter import CallUsage, UsageLimitReached, UsageLimits, UsageMeter
from graphrag.retrieval.retriever import Retriever
from tests.contracts.samples import FLOW, WORKSPACE, a_node, make_flow
from tests.graphrag.approvals.helpers import EDITOR
from tests.graphrag.approvals.helpers import a_bench as an_approval_bench
from tests.graphrag.live.helpers import a_bench, rename
from tests.support.clock import Clock

PRICE = Pricing(model="m")


def subclasses(module: Any, base: type[Exception]) -> list[type[Exception]]:
    return [c for _, c in inspect.getmembers(module, inspect.isclass) if issubclass(c, base)]


def made(kind: type[Exception]) -> Exception:
    """Make an error of a kind without knowing what it is made of."""
    try:
        parameters = inspect.signature(kind).parameters.values()
    except ValueError:
        return kind()
    numbers = dict.fromkeys(
        ("status", "seconds", "found", "supported", "allowed", "reached", "length", "most"), 1
    )
    values: dict[str, Any] = {**numbers, "path": ("p",), "whose": "person"}
    return kind(**{p.name: values.get(p.name, "x") for p in parameters if p.kind is p.KEYWORD_ONLY})


class Fails:
    """Anything whose methods fail with one error."""

    workspace = WORKSPACE
    model = "m"
    name = "p"
    context_window = 1000

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def stream(self, *_: Any) -> AsyncIterator[Any]:
        raise self.error
        yield  # pragma: no cover

    def __getattr__(self, name: str) -> Any:
        async def failing(*_: Any, **__: Any) -> Any:
            raise self.error

        return failing


class NothingLive:
    def live_keys(self) -> list[str]:
        return []

    async def get_live_graph(self, graph_key: str) -> None: ...
    async def get_live_nodes(self, graph_key: str) -> None: ...
    async def get_live_edges(self, graph_key: str) -> None: ...


def over(kind: type[LiveSource], source: Any) -> LiveSource:
    return kind(source, LiveGraphs(lambda _: source, lambda _: source))


EMBEDDERS: dict[type, Callable[[Any], Any]] = {
    MeteredEmbedder: lambda inner: MeteredEmbedder(inner, UsageMeter(), PRICE, provider="p"),
    QueryEmbedder: QueryEmbedder,
    WorkspaceEmbedder: lambda inner: WorkspaceEmbedder(
        inner, MemoryDatabase().source(WORKSPACE), MemoryDatabase().records(WORKSPACE)
    ),
}
SOURCES: dict[type, Callable[[Any], Any]] = {
    MemoryOverlay: lambda inner: MemoryOverlay(inner, NothingLive()),
    LiveSource: lambda inner: over(LiveSource, inner),
    SavedSource: lambda inner: over(SavedSource, inner),
    PendingView: lambda inner: PendingView(inner, FLOW, (), {}),
}
ARGUMENTS: dict[str, Any] = {
    "graph_key": FLOW,
    "keys": ["b"],
    "entries": ["table:b"],
    "query": "q",
    "limit": 5,
    "max_degree": 5,
    "asked": SearchRequest(query="q", limit=5),
    "request": SearchRequest(query="q", limit=5),
    "wanted": None,
    "max_depth": 1,
    "mutation": Mutation(graph_key=FLOW, put_nodes=[a_node("b")]),
    "vectors": [],
    "graph": None,
    "config": None,
}


def implements(kind: type, protocol: type) -> bool:
    return all(hasattr(kind, name) for name in vars(protocol) if not name.startswith("_"))


def wrappers(protocol: type) -> set[type]:
    """Find the classes that implement a Protocol and are made of something that implements it."""
    found: set[type] = set()
    for package in (graphrag, datasources):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(info.name)
            for _, kind in inspect.getmembers(module, inspect.isclass):
                if (
                    kind.__module__ != info.name
                    or not implements(kind, protocol)
                    or kind is protocol
                ):
                    continue
                hints = get_type_hints(kind.__init__)
                if any(hint in (protocol, MutableGraphDataSource) for hint in hints.values()):
                    found.add(kind)
    return found


@pytest.mark.parametrize(
    ("protocol", "known"),
    [
        (EmbeddingProvider, EMBEDDERS),
        (LLMProvider, {ReplaceableProvider: ReplaceableProvider}),
        (GraphDataSource, SOURCES),
    ],
)
def test_every_wrapper_is_in_the_matrix(protocol: type, known: dict[type, Any]) -> None:
    assert wrappers(protocol) <= set(known)
    assert all("__getattr__" in vars(kind) or implements(kind, protocol) for kind in known)


@pytest.mark.parametrize("error", [*subclasses(embedder, EmbeddingError), UsageLimitReached])
@pytest.mark.parametrize("kind", [*EMBEDDERS])
async def test_an_embedder_raises_embedding_errors_only(kind: type, error: type[Exception]) -> None:
    with pytest.raises(EmbeddingError):
        await EMBEDDERS[kind](Fails(made(error))).embed(["text"])


@pytest.mark.parametrize("error", subclasses(model_errors, ModelError))
async def test_a_provider_that_can_be_exchanged_raises_model_errors_only(
    error: type[Exception],
) -> None:
    provider = ReplaceableProvider(Fails(made(error)))  # type: ignore[arg-type]
    with pytest.raises(ModelError):
        async for _ in provider.stream([UserMessage(content="hi")]):
            pass


def limited() -> UsageMeter:
    meter = UsageMeter(UsageLimits(total_cost_usd=0.5))
    used = UsageReport(prompt=1)
    meter.record(CallUsage(kind="chat", provider="p", model="m", tokens=used, cost_usd=1.0))
    return meter


async def test_a_limit_is_a_model_error_to_who_asks_a_model_and_an_embedding_error_to_who_embeds() -> (
    None
):
    inner = Fails(AssertionError("it is not even asked"))
    request = ModelRequest(messages=[UserMessage(content="hi")], tools=(), options=ModelOptions())
    with pytest.raises(ModelError, match="max_total_cost"):
        async with metered_call(inner, request, limited(), PRICE):  # type: ignore[arg-type]
            pass
    with pytest.raises(EmbeddingError, match="max_total_cost"):
        await MeteredEmbedder(inner, limited(), PRICE, provider="p").embed(["text"])  # type: ignore[arg-type]


async def test_at_a_limit_a_question_is_answered_by_words() -> None:
    source = await make_flow(MemoryDatabase())
    embedder = MeteredEmbedder(Fails(AssertionError()), limited(), PRICE, provider="p")  # type: ignore[arg-type]
    found = await Retriever(source, QueryEmbedder(embedder)).retrieve(FLOW, "invoices")
    assert found.nodes
    assert found.words_only


@pytest.mark.parametrize("error", [*subclasses(data_errors, SourceError)])
@pytest.mark.parametrize("kind", [*SOURCES])
async def test_a_source_raises_source_errors_only(kind: type, error: type[Exception]) -> None:
    wrapper = SOURCES[kind](Fails(made(error)))
    protocol = (
        MutableGraphDataSource if implements(kind, MutableGraphDataSource) else GraphDataSource
    )
    for name, method in inspect.getmembers(protocol, inspect.iscoroutinefunction):
        parameters = list(inspect.signature(method).parameters.values())[1:]
        given = {p.name: ARGUMENTS[p.name] for p in parameters if p.default is p.empty}
        try:
            await getattr(wrapper, name)(**given)
        except SourceError:
            continue
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is named
            pytest.fail(f"{kind.__name__}.{name} raises {type(exc).__name__}")


# Live graphs under a source


@asynccontextmanager
async def take_over() -> AsyncIterator[tuple[Any, Mutation]]:
    """Yield a live graph with unsaved changes that another server has taken over, and a
    change of it.
    """
    clock = Clock()
    async with a_bench() as bench:
        await bench.live.edit("ann", None, apply_instructions, [rename("b", "unsaved")])
        async with a_bench(bench.database, later_ms=3_600_000):
            bench.clock.now = clock.now
            (node,) = await bench.stored.get_nodes_by_key(FLOW, ["b"])
            yield bench, Mutation(graph_key=FLOW, put_nodes=[node])


async def test_a_live_graph_that_another_server_holds_is_a_busy_source_to_who_writes_or_saves() -> (
    None
):
    async with take_over() as (bench, mutation):
        with pytest.raises(LiveElsewhere):
            await bench.live.save()
    async with take_over() as (bench, mutation):
        with pytest.raises(SourceError, match="another server"):
            await LiveSource(bench.stored, bench.graphs).apply(mutation)
    async with take_over() as (bench, mutation):
        with pytest.raises(SourceError, match="another server"):
            await SavedSource(bench.stored, bench.graphs).get_graph(FLOW)


async def test_a_change_that_is_stored_succeeds_although_it_cannot_be_shown_to_editors_yet() -> (
    None
):
    async with a_bench() as bench:
        (node,) = await bench.stored.get_nodes_by_key(FLOW, ["b"])
        elsewhere = node.replace(data={"name": "changed elsewhere"})
        await bench.stored.apply(Mutation(graph_key=FLOW, put_nodes=[a_node("new")]))
        bench.source.fails["get_nodes"] = bench.source.fails["get_graph"] = (
            1  # when it is read again
        )
        revision = await LiveSource(bench.stored, bench.graphs).apply(
            Mutation(graph_key=FLOW, put_nodes=[elsewhere])
        )
        assert revision == (await bench.stored.get_graph(FLOW)).revision
        bench.source.fails.clear()
        await bench.graphs.tick()
        assert {n.key: n.data for n in bench.live.nodes}["b"] == {"name": "changed elsewhere"}


async def test_an_approval_at_a_usage_limit_is_applied_and_said_so() -> None:
    bench = await an_approval_bench()
    approval = await bench.propose("update_node", nodeKey="b", changes={"data.name": "Other"})
    embedder = MeteredEmbedder(Fails(AssertionError()), limited(), PRICE, provider="p")  # type: ignore[arg-type]
    async with EmbeddingQueue(lambda _: bench.source, embedder) as queue:
        approvals = bench.approvals(on_applied=queue.of(WORKSPACE).applied)
        assert (await approvals.decide(approval.id, Approve(), EDITOR)).status == "applied"
