"""A tool that a model can call: its declaration, arguments, context and result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel

from datasources.base import GraphDataSource
from datasources.everywhere import GraphHits
from datasources.types import ScoredNode
from languages import Language
from tools.arguments import parameters_of
from tools.past_changes import History
from tools.schema_values import read_by_schema, schema_of
from tools.toon import compact_json

Role = Literal["viewer", "editor", "reviewer", "admin"]
EVERYONE: frozenset[Role] = frozenset(("viewer", "editor", "reviewer", "admin"))
SessionKind = Literal["chat", "automation"]
Effect = Literal["read", "proposes", "acts"]
"""The effect of a call: it reads, proposes a change for approval, or acts at once outside the
graph.
"""
ANY_SESSION: frozenset[SessionKind] = frozenset(("chat", "automation"))
NO_FEATURES: frozenset[str] = frozenset()
GRAPH_ARGUMENT = "graph"  # the argument with the key of the graph, in tools for several graphs

ErrorCode = Literal[
    "unknown_tool",
    "not_permitted",
    "malformed_arguments",
    "invalid_arguments",
    "not_found",
    "unavailable",
]
_OLDER = (
    ("key", "nodeKey"),
    ("keys", "nodeKeys"),
    ("type", "typeKey"),
    ("sheet", "sheetId"),
    ("sheetId", "sheet"),
    ("depth", "maxDepth"),
    ("limit", "maxResults"),
)


class ToolArguments(BaseModel):
    """Base of all tool arguments: strict, without unknown fields. Values are converted only if
    the conversion is unambiguous (`read_by_schema`).

    Older argument names are accepted unless the tool has another argument with that name.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, alias_generator=to_camel, populate_by_name=True
    )

    @model_validator(mode="before")
    @classmethod
    def _read(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        pairs = cast(dict[str, Any], values)
        names = {info.alias or name for name, info in cls.model_fields.items()}
        renamed = {
            old: new for old, new in _OLDER if old not in names and new in names - pairs.keys()
        }
        named = {renamed.get(name, name): value for name, value in pairs.items()}
        return read_by_schema(schema_of(cls), named)


class DescribedArguments(ToolArguments):
    """Arguments of a tool whose `parameters` are a JSON Schema. `values` are already validated."""

    values: dict[str, Any]


class Search(Protocol):
    """Ranks the nodes of a graph for a query. Implemented by the retriever of graphrag."""

    async def __call__(self, graph_key: str, query: str, *, limit: int) -> Sequence[ScoredNode]: ...


class SearchAll(Protocol):
    """Ranks the nodes of all graphs for a query. Implemented by the workspace search of
    graphrag.
    """

    async def __call__(
        self, query: str, *, limit: int, hits: int, graphs: Sequence[str] | None = None
    ) -> Sequence[GraphHits]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """Limits of a result, in characters (`*_chars`), rows, nodes and links.

    Of graphs with more than `whole_graph_nodes` nodes only counts are exact; other results are
    based on a sample.
    """

    field_chars: int = 300
    detail_chars: int = 4_000
    page_chars: int = 8_000
    rows: int = 100
    whole_graph_nodes: int = 5_000
    sample_nodes: int = 1_000
    sample_links: int = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """The context of a tool call: the graph, the role of the person, and services.

    Without `search`, nodes are found by text search. `graphs` limits the search of all graphs;
    None means all graphs of the workspace. `features` are the abilities of the person's client.
    """

    source: GraphDataSource
    graph_key: str
    role: Role = "viewer"
    session_kind: SessionKind = "chat"
    features: frozenset[str] = NO_FEATURES
    language: Language = "en"
    search: Search | None = None
    search_all: SearchAll | None = None
    graphs: tuple[str, ...] | None = None
    history: History | None = None
    limits: ToolLimits = field(default_factory=ToolLimits)
    call_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One error in a call or an action. `where` is the path of the argument, as `keys.0`.

    `unknown_node` is set if the error is a node key that does not exist.
    """

    what: str
    where: str = ""
    allowed: str | None = None
    unknown_node: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolError:
    """The reason why a call failed. `example` are the arguments of a correct call."""

    code: ErrorCode
    problems: tuple[Problem, ...]
    example: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a call: `text` for the model, `data` (JSON-like) for the client, or an error.

    `outcome` holds the `status` of an earlier proposal and its reason.
    """

    text: str
    data: Any = None
    error: ToolError | None = None
    outcome: Mapping[str, Any] | None = None

    @property
    def is_error(self) -> bool:
        return self.error is not None


A = TypeVar("A", bound=ToolArguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[A]):
    """One tool. `description` tells the model when to call it; `example` is a correct call.

    The tool is offered in the kinds of `sessions`, and only to clients with its `feature`.
    `alone`: rejected if the model makes other calls beside it. `parameters`: the JSON Schema of a
    tool described by a document, which receives DescribedArguments. `timeout_s`: replaces the
    general timeout. `reusable`: a repeated read may return a cached result. `essential`: also
    offered to models with a small context window.
    """

    name: str
    description: str
    arguments: type[A]
    run: Callable[[A, ToolContext], Awaitable[ToolResult]]
    example: Mapping[str, Any] = field(default_factory=dict[str, Any])
    roles: frozenset[Role] = EVERYONE
    effect: Effect = "read"
    sessions: frozenset[SessionKind] = ANY_SESSION
    feature: str | None = None
    alone: bool = False
    parameters: Mapping[str, Any] | None = None
    timeout_s: float | None = None
    reusable: bool = True
    essential: bool = False

    def is_for(self, role: Role, session_kind: SessionKind, features: frozenset[str]) -> bool:
        """Returns whether the tool is offered to a role in a kind of session."""
        shown = self.feature is None or self.feature in features
        return role in self.roles and session_kind in self.sessions and shown

    def schema(self) -> dict[str, Any]:
        """Returns the tool as an OpenAI function definition."""
        parameters = (
            self.parameters if self.parameters is not None else parameters_of(self.arguments)
        )
        description = self.description
        if self.example:
            description += f" Example: {compact_json(dict(self.example))}"
        function = {"name": self.name, "description": description, "parameters": parameters}
        return {"type": "function", "function": function}


def read_tool(
    description: str,
    example: Mapping[str, Any] | None = None,
    *,
    reusable: bool = True,
    essential: bool = False,
) -> Callable[[Callable[[A, ToolContext], Awaitable[ToolResult]]], Tool[A]]:
    """Returns a decorator that turns a function into a reading tool.

    The tool has the function's name; its arguments class is the annotation of `arguments`.
    """

    def decorator(run: Callable[[A, ToolContext], Awaitable[ToolResult]]) -> Tool[A]:
        return Tool(
            name=cast(Any, run).__name__,
            description=description,
            arguments=get_type_hints(run)["arguments"],
            run=run,
            example=example or {},
            reusable=reusable,
            essential=essential,
        )

    return decorator


def failure(
    code: ErrorCode, *problems: Problem, example: Mapping[str, Any] | None = None
) -> ToolResult:
    """Returns the result of a failed call, with its problems written for the model."""
    lines = [f"ERROR {code}"]
    for problem in problems:
        where = f"{problem.where}: " if problem.where else ""
        lines.append(f"- {where}{problem.what}")
        if problem.allowed:
            lines.append(f"  allowed: {problem.allowed}")
    if example:
        lines.append(f"example: {compact_json(dict(example))}")
    return ToolResult(
        text="\n".join(lines), error=ToolError(code=code, problems=problems, example=example)
    )
