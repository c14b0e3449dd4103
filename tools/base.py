"""What a model can call: a tool, its arguments, its result, and the box that runs it.

A model's mistake is never an exception here: it comes back as a result that says what is wrong,
where, what is allowed and how a right call looks, so that the model can correct itself.
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
"""What a call does: read, propose a change that a person decides, or act outside the
graph at once.
"""
ANY_SESSION: frozenset[SessionKind] = frozenset(("chat", "automation"))
NO_FEATURES: frozenset[str] = frozenset()
GRAPH_ARGUMENT = "graph"  # names the graph of a call, in a tool for several graphs

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
    """Base of what a model writes: no unknown field, and no conversion but where nothing else can
    be meant (`read_by_schema`).

    An older name of an argument is taken where the tool has no argument of that name.
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
    """Arguments of a tool whose `parameters` are a JSON Schema, against which
    `values` were checked.
    """

    values: dict[str, Any]


class Search(Protocol):
    """Ranks nodes of a graph for a query; graphrag's retriever is passed in as this."""

    async def __call__(self, graph_key: str, query: str, *, limit: int) -> Sequence[ScoredNode]: ...


class SearchAll(Protocol):
    """Ranks nodes of all graphs for a query; graphrag's search of a workspace is
    passed in as this.
    """

    async def __call__(
        self, query: str, *, limit: int, hits: int, graphs: Sequence[str] | None = None
    ) -> Sequence[GraphHits]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Which changes of a graph are asked for: of a node, an edge, a sheet or a type, or all.

    `start` (None: the beginning) and `end` are NOW, instants or calendar units, as `-1_WEEK`.
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
    """One change: an edit by hand, an applied proposal, or an undo of either. `time`: ISO 8601."""

    time: str
    kind: Literal["edit", "change", "undo"]
    who: str
    what: str
    proposal: str = ""
    undone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PastChanges:
    """Changes, newest first, with the instants of their period. `more`: older ones are left out."""

    changes: Sequence[PastChange]
    start: str | None
    end: str
    more: bool = False


class History(Protocol):
    """Reads what changed in a graph; graphrag's history of edits and approvals is passed
    in as this.
    """

    async def __call__(self, graph_key: str, past: Past) -> PastChanges:
        """Return the changes asked for. Raises: ValueError where the period is none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """Bounds of a result. Units: characters of a field, of a page of a field; rows; nodes.

    Above `whole_graph_nodes` a graph is not read whole: counts are exact, the rest is a sample.
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
    """Where a tool runs: one graph, one person's role. Without `search`, text search answers.

    `graphs` are those that a search of all graphs may look at, None: all of the workspace.
    `features` is what the person's client can show. `call_id` is the id of the call that runs.
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
    """One thing wrong with a call or an action. `where` is the argument, as `keys.0`.

    `unknown_node` is a key that no node has.
    """

    what: str
    where: str = ""
    allowed: str | None = None
    unknown_node: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolError:
    """Why a call failed, for a model to correct. `example` is a right call's arguments."""

    code: ErrorCode
    problems: tuple[Problem, ...]
    example: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a call gave: `text` for the model, `data` (JSON-like) for the client, or an error.

    `outcome` are facts about a proposal that was made before: its `status`, and why.
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
    """One tool. `description` tells a model when to call it and when not; `example`
    is a right call.

    It is offered in `sessions` of these kinds, to clients that have its `feature`, where
    it names one.
    `alone`: it is refused beside another call. `parameters` is the JSON Schema of a tool that a
    document describes, which gets DescribedArguments. `timeout_s` takes the place of the limit
    of other tools.
    `reusable`: the same read may be answered from memory for a while. `essential`: also a model
    with a small window is offered it.
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
        """Return whether the tool is offered to a role in a session of a kind."""
        shown = self.feature is None or self.feature in features
        return role in self.roles and session_kind in self.sessions and shown

    def schema(self) -> dict[str, Any]:
        """Return the tool in OpenAI's function form."""
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
    """Return what makes a function a tool that reads, with the function's name
    and its arguments.
    """

    def made(run: Callable[[A, ToolContext], Awaitable[ToolResult]]) -> Tool[A]:
        return Tool(
            name=cast(Any, run).__name__,
            description=description,
            arguments=get_type_hints(run)["arguments"],
            run=run,
            example=example or {},
            reusable=reusable,
            essential=essential,
        )

    return made


class ToolBox:
    """The tools at hand, by name, and the one place where they are run."""

    def __init__(self, tools: Iterable[Tool[Any]]) -> None:
        self._tools: dict[str, Tool[Any]] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ValueError(f"two tools are named {tool.name!r}")
            self._tools[tool.name] = tool

    @property
    def names(self) -> frozenset[str]:
        """The names of all tools, of every role and session."""
        return frozenset(self._tools)

    def offered(
        self, role: Role, session_kind: SessionKind = "chat", features: frozenset[str] = NO_FEATURES
    ) -> list[Tool[Any]]:
        """Return the tools of a role in a session of a kind, in the order given.

        A run that may only report has the role of a viewer, who has no tools that write.
        """
        return [tool for tool in self._tools.values() if tool.is_for(role, session_kind, features)]

    def schemas(self, role: Role) -> list[dict[str, Any]]:
        """Return `offered` in OpenAI's function form."""
        return [tool.schema() for tool in self.offered(role)]

    def get(self, name: str) -> Tool[Any] | None:
        return self._tools.get(name)

    def accepts(self, name: str, raw_arguments: str) -> bool:
        """Returns whether a call has the arguments that its tool takes; only a run tells
        whether they fit.
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
        """Run a call as the model wrote it. Whatever the model or the store does, a
        result comes back.
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
        said = {"error": what, **({"did_you_mean": near} if near else {}), "allowed": names}
        error = ToolError(code="unknown_tool", problems=(Problem(what=what, allowed=allowed),))
        return ToolResult(text=compact_json(said), error=error)


def failure(
    code: ErrorCode, *problems: Problem, example: Mapping[str, Any] | None = None
) -> ToolResult:
    """Return a result that says what went wrong, in words a model can act on."""
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
    """Return the arguments as the tool takes them, or what is wrong by the schema of a document."""
    if tool.parameters is None:
        return tool.arguments.model_validate(values)
    values = read_by_schema(tool.parameters, values)
    if problems := [
        Problem(where=at, what=what) for at, what in wrong_arguments(tool.parameters, values)
    ]:
        return failure("invalid_arguments", *problems, example=tool.example)
    return DescribedArguments(values=values)


def _malformed(tool: Tool[Any], raw: str | dict[str, Any], *, corrected: bool) -> dict[str, Any]:
    """Return what is logged of malformed arguments; those of a document's tool may hold
    what callers said.
    """
    shown = str(raw)[:500] if tool.parameters is None else ""
    return {"tool": tool.name, "raw": shown, "corrected": corrected}


def _invalid(tool: Tool[Any], exc: ValidationError) -> ToolResult:
    fields = [info.alias or name for name, info in tool.arguments.model_fields.items()]
    problems: list[Problem] = []
    for found in exc.errors(include_url=False)[:5]:
        where = ".".join(str(part) for part in found["loc"])[:200]
        what = found["msg"]
        allowed = None
        if found["type"] == "extra_forbidden":
            name = str(found["loc"][-1])[:100]
            near = difflib.get_close_matches(name, fields, n=1, cutoff=0.6)
            what = "unknown argument" + (f"; did you mean {near[0]}?" if near else "")
            allowed = ", ".join(fields) or "no arguments"
        elif found["type"] != "missing":
            what += f" (got {compact_json(found['input'])[:60]})"
        problems.append(Problem(what=what, where=where, allowed=allowed))
    return failure("invalid_arguments", *problems, example=tool.example)


def _source_failed(exc: errors.SourceError) -> ToolResult:
    """Say what a model may know of a failing store: neither paths nor statements."""
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
