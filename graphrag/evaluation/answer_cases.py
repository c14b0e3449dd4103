"""Cases for measuring answers: questions with the facts of a right answer, and changes with their
expected result.

A file of cases is TOML or JSON: a list `workflows`, each with a `file`, its `questions` and its
`changes`. Nodes are referred to by their names in the workflow; docs/retrieval.md lists the fields.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from datasources.base import GraphDataSource, MutableGraphDataSource
from datasources.types import Edge, Graph, Mutation, Node, NodeTypeConfig
from graphrag.agent.named_graph import NamedGraph
from graphrag.embedding.embedder import EmbeddingProvider
from graphrag.embedding.refresh import embed_nodes
from graphrag.evaluation.scoring import QueryFileError
from graphrag.evaluation.workflows import NOTE_TYPE, node_name
from graphrag.importers import UnreadableWorkflow, import_workflow
from mock_data import load_text

SAMPLE = "sample:"  # prefix of the name of a packaged workflow
STORED = "graph:"  # prefix of the key of a graph in the configured database

Text = Annotated[str, Field(min_length=1)]
# A text that the answer must contain; for a tuple, one of its texts.
Fact = Text | tuple[Text, ...]
# The names of the source and the target node of an edge.
Pair = tuple[Text, Text]


class _CaseModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AskedQuestion(_CaseModel):
    """A question with the facts that its answer must, and must not, contain.

    `counted` are the nodes whose number the question asks for; the number is then a fact, too.
    `connected` names two nodes if the question asks whether an edge connects them; the graph gives
    the right answer.
    """

    ask: Text
    must: tuple[Fact, ...] = ()
    must_not: tuple[Text, ...] = ()
    counted: tuple[Text, ...] = ()
    connected: Pair | None = None

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts of a right answer."""
        return (*self.must, *((str(len(self.counted)),) if self.counted else ()))

    @property
    def shown_facts(self) -> tuple[Fact, ...]:
        """The facts that a context must show for the question to be answered from it."""
        return (*self.must, *self.counted, *(self.connected or ()))


class NewNode(_CaseModel):
    """A node that a change should add. A `name` of None means any name."""

    type: Text
    name: str | None = None


class AskedChange(_CaseModel):
    """A request for a change with its expected result; everything else must stay unchanged.

    `set`: values by the names of nodes and the paths of fields (`data.name` renames). `gone`:
    deleted nodes. `edges` and `no_edges`: edges that must exist or not exist; `new`: nodes that are
    added.
    """

    ask: Text
    set: Mapping[Text, Mapping[Text, Any]] = Field(default_factory=dict[str, dict[str, Any]])
    gone: tuple[Text, ...] = ()
    edges: tuple[Pair, ...] = ()
    no_edges: tuple[Pair, ...] = ()
    new: tuple[NewNode, ...] = ()


class WorkflowCases(_CaseModel):
    """The cases of one workflow: a `file` of the folder, a packaged one (`sample:nba.json`), or a
    graph of the database (`graph:KEY`).
    """

    file: Text
    questions: tuple[AskedQuestion, ...] = ()
    changes: tuple[AskedChange, ...] = ()


class _CaseFile(_CaseModel):
    workflows: Annotated[tuple[WorkflowCases, ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question or a change about a workflow. `id` is unique in its file; `digest` is a hash of
    the content.
    """

    id: str
    file: str
    asked: AskedQuestion | AskedChange

    @property
    def kind(self) -> Literal["question", "change"]:
        return "question" if isinstance(self.asked, AskedQuestion) else "change"

    @property
    def digest(self) -> str:
        document = orjson.dumps(self.asked.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(document).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseGraph:
    """The graph of a workflow, with nodes and edges by key. Several nodes may have the same
    name.
    """

    graph: Graph
    nodes: Mapping[str, Node]
    edges: Mapping[str, Edge]
    configs: Sequence[NodeTypeConfig] = ()

    @property
    def content(self) -> Mutation:
        """The whole graph as a mutation."""
        return Mutation(
            graph_key=self.graph.key,
            put_nodes=list(self.nodes.values()),
            put_edges=list(self.edges.values()),
            put_configs=self.configs,
        )

    @property
    def named(self) -> NamedGraph:
        """The graph by the names that answers use."""
        return NamedGraph.of(self.nodes.values(), self.edges.values())

    def keys(self, name: str) -> set[str]:
        """Returns the keys of the nodes with this name or key; those of notes only if no other node
        has it.
        """
        wanted = name.strip().casefold()
        keys = {
            key
            for key, node in self.nodes.items()
            if wanted in (key.casefold(), node_name(node).strip().casefold())
        }
        return {key for key in keys if self.nodes[key].type != NOTE_TYPE} or keys

    def has_edge(self, pair: Pair) -> bool:
        """Returns whether an edge leads from the first node to the second."""
        sources = self.keys(pair[0])
        targets = self.keys(pair[1])
        return any(
            edge.source in sources and edge.target in targets for edge in self.edges.values()
        )


def read_cases(path: Path) -> list[Case]:
    """Returns the cases of a file, in its order. Raises: QueryFileError."""
    try:
        raw = path.read_bytes()
        document = tomllib.loads(raw.decode()) if path.suffix == ".toml" else orjson.loads(raw)
        workflows = _CaseFile.model_validate(document).workflows
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise QueryFileError(file=str(path), reason=f"{where}: {first['msg']}") from exc
    except OSError as exc:
        raise QueryFileError(file=str(path), reason=exc.strerror or str(exc)) from exc
    except ValueError as exc:  # of TOML, JSON or UTF-8
        raise QueryFileError(file=str(path), reason=str(exc)) from exc
    cases = [case for workflow in workflows for case in _of_workflow(workflow)]
    if len({case.id for case in cases}) < len(cases):
        raise QueryFileError(file=str(path), reason="a workflow is listed twice")
    if not cases:
        raise QueryFileError(file=str(path), reason="it contains neither a question nor a change")
    return cases


def _of_workflow(workflow: WorkflowCases) -> list[Case]:
    """Returns the cases of a workflow, numbered by kind."""
    numbered: list[tuple[str, Sequence[AskedQuestion | AskedChange]]] = [
        ("q", workflow.questions),
        ("c", workflow.changes),
    ]
    return [
        Case(id=f"{workflow.file}#{letter}{number}", file=workflow.file, asked=asked)
        for letter, requests in numbered
        for number, asked in enumerate(requests, start=1)
    ]


async def load_stored(source: GraphDataSource, key: str) -> CaseGraph:
    """Returns a graph of a database. Raises: GraphNotFound, SourceError."""
    nodes = await source.get_nodes(key)
    edges = await source.get_edges(key)
    return CaseGraph(
        graph=await source.get_graph(key),
        nodes={node.key: node for node in nodes},
        edges={edge.key: edge for edge in edges},
        configs=tuple(await source.get_node_configs(sorted({node.type for node in nodes}))),
    )


def copy_graph(graph: CaseGraph, key: str, *, workspace: str | None = None) -> CaseGraph:
    """Returns a copy of a graph under another key and, if given, in another workspace."""
    workspace = workspace or graph.graph.workspace
    return CaseGraph(
        graph=graph.graph.replace(key=key, workspace=workspace),
        nodes={
            name: node.model_copy(update={"graph_key": key}) for name, node in graph.nodes.items()
        },
        edges={
            name: edge.model_copy(update={"graph_key": key}) for name, edge in graph.edges.items()
        },
        configs=[config.model_copy(update={"workspace": workspace}) for config in graph.configs],
    )


async def store_graph(
    source: MutableGraphDataSource, embedder: EmbeddingProvider | None, graph: CaseGraph
) -> None:
    """Stores a graph and the vectors of its nodes. Raises: GraphExists, SourceError,
    EmbeddingError.
    """
    await source.create_graph(graph.graph, graph.content)
    if embedder is not None:
        await embed_nodes(source, embedder, graph_keys=[graph.graph.key])


def read_graph(file: str, folder: Path | None, *, workspace: str, graph_key: str) -> CaseGraph:
    """Returns the graph of a workflow file in the folder, or of a packaged sample.

    Raises: QueryFileError.
    """
    try:
        if file.startswith(SAMPLE):
            name = file.removeprefix(SAMPLE)
            raw = load_text(name).encode()
        elif folder is None:
            raise QueryFileError(
                file=file, reason="--workflows DIR is missing: the folder of this workflow"
            )
        else:
            name = file
            raw = (folder / file).read_bytes()
        result = import_workflow(raw, file_name=name, workspace=workspace, graph_key=graph_key)
    except OSError as exc:
        raise QueryFileError(file=file, reason=exc.strerror or str(exc)) from exc
    except UnreadableWorkflow as exc:
        raise QueryFileError(file=file, reason=str(exc)) from exc
    return CaseGraph(
        graph=result.graph,
        nodes={node.key: node for node in result.nodes},
        edges={edge.key: edge for edge in result.edges},
        configs=result.configs,
    )
