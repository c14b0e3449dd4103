"""A tool that a model can call, its arguments and result, and the tool box that runs it.

A wrong call is never an exception: its result says what is wrong, where, what is allowed, and
shows an example of a correct call, so that the model can correct itself.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, Protocol, TypeVar, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from datasources import errors
from datasources.base import GraphDataSource
from datasources.everywhere import GraphHits
from datasources.types import ScoredNode
from languages import Language
from tools.arguments import MalformedArguments, parameters_of, parse_arguments, wrong_arguments
from tools.schema_values import read_by_schema, schema_of
from tools.toon import ToonError, compact_json

log = logging.getLogger(__name__)

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
class Past:
    """A request for changes of a graph: those of a node, edge, sheet or type, or all changes.

    `start` and `end` are NOW, an ISO 8601 instant or relative to now, as `-1_WEEK`. A `start` of
    None means all earlier changes.
    """

    node: str | None = None
    edge: str | None = None
    sheet: str | None = None
    node_type: str | None = None
    start: str | None = None
    end: str = "NOW"
    limit: int = 50
    language: Language = "en"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastChange:
    """One change: a manual edit, an applied proposal, or an undo of either. `time` is ISO 8601."""

    time: str
    kind: Literal["edit", "change", "undo"]
    who: str
    what: str
    proposal: str = ""
    undone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PastChanges:
    """Changes, newest first, with the start and end of their period. `more` is True if older
    changes in the period were left out.
    """

    changes: Sequence[PastChange]
    start: str | None
    end: str
    more: bool = False


class History(Protocol):
    """Reads the changes of a graph. Implemented by the history of edits and approvals of
    graphrag.
    """

    async def __call__(self, graph_key: str, past: Past) -> PastChanges:
        """Returns the requested changes. Raises: ValueError if the period is invalid."""
        ...


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


class ToolBox:
    """The available tools by name. All tool calls are run here."""

    def __init__(self, tools: Iterable[Tool[Any]]) -> None:
        self._tools: dict[str, Tool[Any]] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ValueError(f"two tools are named {tool.name!r}")
            self._tools[tool.name] = tool

    @property
    def names(self) -> frozenset[str]:
        """The names of all tools, for every role and session."""
        return frozenset(self._tools)

    def offered(
        self, role: Role, session_kind: SessionKind = "chat", features: frozenset[str] = NO_FEATURES
    ) -> list[Tool[Any]]:
        """Returns the tools offered to a role in a kind of session, in their original order.

        A run that may only report has the role of a viewer, which has no writing tools.
        """
        return [tool for tool in self._tools.values() if tool.is_for(role, session_kind, features)]

    def schemas(self, role: Role) -> list[dict[str, Any]]:
        """Returns the tools of `offered` as OpenAI function definitions."""
        return [tool.schema() for tool in self.offered(role)]

    def get(self, name: str) -> Tool[Any] | None:
        return self._tools.get(name)

    def accepts(self, name: str, raw_arguments: str) -> bool:
        """Returns whether the arguments of a call match the schema of its tool.

        `run` may still reject them, for example if a node does not exist.
        """
        tool = self._tools.get(name)
        try:
            return tool is not None and not isinstance(
                _checked(tool, parse_arguments(raw_arguments).values), ToolResult
            )
        except (MalformedArguments, ValidationError):
            return False

    async def run(
        self, name: str, raw_arguments: str | dict[str, Any], context: ToolContext
    ) -> ToolResult:
        """Runs a call as the model wrote it. Errors of the model and of the data source are
        returned as results.
        """
        tool = self._tools.get(name)
        if tool is None or not tool.is_for(context.role, context.session_kind, context.features):
            return self._refused(name, tool, context)
        try:
            parsed = parse_arguments(raw_arguments)
            arguments = _checked(tool, parsed.values)
        except MalformedArguments as exc:
            log.warning("malformed_json", extra=_malformed(tool, raw_arguments, corrected=False))
            return failure("malformed_arguments", Problem(what=str(exc)), example=tool.example)
        except ValidationError as exc:
            return _invalid(tool, exc)
        if isinstance(arguments, ToolResult):
            return arguments
        try:
            result = await tool.run(arguments, context)
        except errors.SourceError as exc:
            log.warning("tool_failed", extra={"tool": name, "error": type(exc).__name__})
            return _source_failed(exc)
        except ToonError as exc:
            return failure(
                "unavailable", Problem(what=f"the result cannot be written: {exc.reason}")
            )
        if not parsed.repaired:
            return result
        log.warning("malformed_json", extra=_malformed(tool, raw_arguments, corrected=True))
        note = f"(arguments were not valid JSON; read as {compact_json(parsed.values)[:300]})"
        return replace(result, text=f"{note}\n{result.text}")

    def _refused(self, name: str, tool: Tool[Any] | None, context: ToolContext) -> ToolResult:
        role = context.role
        names = [
            offered.name for offered in self.offered(role, context.session_kind, context.features)
        ]
        allowed = ", ".join(names)
        if tool is not None:
            what = (
                f"{name} is not offered here"
                if role in tool.roles
                else f"a {role} may not call {name}"
            )
            return failure("not_permitted", Problem(what=what, allowed=allowed))
        what = f"unknown function: {name[:100]}"
        near = difflib.get_close_matches(name[:100].casefold(), names, n=3, cutoff=0.5)
        answer = {"error": what, **({"did_you_mean": near} if near else {}), "allowed": names}
        error = ToolError(code="unknown_tool", problems=(Problem(what=what, allowed=allowed),))
        return ToolResult(text=compact_json(answer), error=error)


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


def _checked(tool: Tool[Any], values: dict[str, Any]) -> Any:
    """Returns the validated arguments of a tool.

    Violations of a document's schema are returned as a ToolResult; others raise ValidationError.
    """
    if tool.parameters is None:
        return tool.arguments.model_validate(values)
    values = read_by_schema(tool.parameters, values)
    if problems := [
        Problem(where=at, what=what) for at, what in wrong_arguments(tool.parameters, values)
    ]:
        return failure("invalid_arguments", *problems, example=tool.example)
    return DescribedArguments(values=values)


def _malformed(tool: Tool[Any], raw: str | dict[str, Any], *, corrected: bool) -> dict[str, Any]:
    """Returns the log fields for malformed arguments.

    The raw text is not logged for tools of documents: it may repeat what a caller said.
    """
    shown = str(raw)[:500] if tool.parameters is None else ""
    return {"tool": tool.name, "raw": shown, "corrected": corrected}


def _invalid(tool: Tool[Any], exc: ValidationError) -> ToolResult:
    fields = [info.alias or name for name, info in tool.arguments.model_fields.items()]
    problems: list[Problem] = []
    for error in exc.errors(include_url=False)[:5]:
        where = ".".join(str(part) for part in error["loc"])[:200]
        what = error["msg"]
        allowed = None
        if error["type"] == "extra_forbidden":
            name = str(error["loc"][-1])[:100]
            near = difflib.get_close_matches(name, fields, n=1, cutoff=0.6)
            what = "unknown argument" + (f"; did you mean {near[0]}?" if near else "")
            allowed = ", ".join(fields) or "no arguments"
        elif error["type"] != "missing":
            what += f" (got {compact_json(error['input'])[:60]})"
        problems.append(Problem(what=what, where=where, allowed=allowed))
    return failure("invalid_arguments", *problems, example=tool.example)


def _source_failed(exc: errors.SourceError) -> ToolResult:
    """Returns the result for an error of the data source, without its paths or statements."""
    match exc:
        case errors.GraphNotFound():
            return failure("not_found", Problem(what="this graph no longer exists"))
        case errors.BadDocument():
            what = f"the stored document {exc.key!r} is malformed in field {exc.field!r}"
        case errors.SourceTimeout() | errors.DatabaseBusy():
            what = "the database did not answer in time; try once more, then tell the person"
        case _:
            what = "the database cannot answer now; tell the person"
    return failure("unavailable", Problem(what=what))
