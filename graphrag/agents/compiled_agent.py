"""An agent document with every template, condition, path and request of it parsed once.

From outside: `CompiledAgent`, `compile_agent`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from graphrag.agents.document import AgentDocument, Greeting, OutcomeRule, PreCallCheck, StartRequest
from graphrag.agents.session_fields import FetchedSession, ToolDeclaration
from tools.http.compiled import (
    CompiledRequest,
    CompiledTool,
    RequestLike,
    compile_request,
    compile_store,
    compile_tool,
)
from tools.http.expressions import Expression, parse_expression
from tools.http.json_paths import Path, parse_path
from tools.http.model import BuiltinTool, HttpTool
from tools.http.problems import BadText, DocumentProblem, noted
from tools.http.scope import (
    AT_END,
    BLOCK_IF,
    CHECK,
    GREETING,
    INSTRUCTIONS,
    LIFECYCLE,
    SESSION_REQUEST,
    Names,
    with_response,
)
from tools.http.value_templates import ValueTemplate, parse_template


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCheck:
    """A request before a conversation. `message`: what a blocked caller reads, None for our own words."""

    name: str
    request: CompiledRequest
    block_if: Expression
    message: ValueTemplate | None
    blocks_on_error: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledSession:
    """How instructions and tools are fetched. The paths look at the answer.

    `fallback`: instructions for when fetching failed; their tools are `fallback_declarations`.
    """

    request: CompiledRequest
    instructions: Path
    tools: Path | None
    voice: Path | None
    ctx_init: tuple[tuple[str, Path], ...]
    fallback: ValueTemplate | None
    fallback_declarations: tuple[ToolDeclaration, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledGreeting:
    """The two texts of a greeting, and the value that says which; None: always `unknown`."""

    known: ValueTemplate
    unknown: ValueTemplate
    condition: ValueTemplate | None
    interruptible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleRequest:
    """A request at the beginning or the end. `store`: what goes from its answer into ctx."""

    request: CompiledRequest
    condition: Expression | None = None
    store: tuple[tuple[str, Path], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledAgent:
    """A checked agent. `instructions` and `declarations` are those of an inline session.

    `outcome_rules` stand in the order in which they are tried; `flags`: names that its tools can make true.
    """

    document: AgentDocument
    base_url: str | None
    instructions: ValueTemplate | None
    declarations: tuple[ToolDeclaration, ...]
    session: CompiledSession | None
    checks: tuple[CompiledCheck, ...]
    greeting: CompiledGreeting | None
    on_start: LifecycleRequest | None
    on_no_action: LifecycleRequest | None
    on_end: LifecycleRequest | None
    outcome_rules: tuple[OutcomeRule, ...]
    tools: Mapping[str, CompiledTool]
    builtins: Mapping[str, BuiltinTool]
    flags: frozenset[str]

    @property
    def agent_id(self) -> str:
        return self.document.agent.id

    def requests(self) -> Iterator[CompiledRequest]:
        """Yield every request that the agent may make."""
        yield from (check.request for check in self.checks)
        if self.session is not None:
            yield self.session.request
        for moment in (self.on_start, self.on_no_action, self.on_end):
            if moment is not None:
                yield moment.request
        for tool in self.tools.values():
            yield from (step.request for step in tool.steps if step.request is not None)
            yield tool.request


def compile_agent(document: AgentDocument, problems: list[DocumentProblem]) -> CompiledAgent | None:
    """Return the agent, parsed; None where its texts have mistakes, which are added to `problems`."""
    return _Compiler(document, problems).agent()


class _Compiler:
    """Parses the parts of one document; a part with a mistake is None, and the mistake is noted."""

    def __init__(self, document: AgentDocument, problems: list[DocumentProblem]) -> None:
        self._document, self._problems = document, problems
        self._base_url = document.base_url.rstrip("/") if document.base_url else None
        self._secrets: dict[str, Sequence[str]] = {use.name: use.hosts for use in document.secrets}

    def agent(self) -> CompiledAgent | None:
        document, before = self._document, len(self._problems)
        inline = None if isinstance(document.session, FetchedSession) else document.session
        tools = self._tools()
        agent = CompiledAgent(
            document=document,
            base_url=self._base_url,
            instructions=self._template(inline and inline.instructions, "session.instructions", INSTRUCTIONS),
            declarations=tuple(inline.tools) if inline else (),
            session=self._session(document.session) if isinstance(document.session, FetchedSession) else None,
            checks=self._checks(document.pre_call_checks),
            greeting=self._greeting(document.greeting),
            on_start=self._start(document.lifecycle.on_start, "lifecycle.on_start", LIFECYCLE),
            on_no_action=self._no_action(),
            on_end=self._moment(document.lifecycle.on_end, "lifecycle.on_end", AT_END),
            outcome_rules=_in_order(document.lifecycle.outcome_rules),
            tools=tools,
            builtins={n: tool for n, tool in document.tools.items() if isinstance(tool, BuiltinTool)},
            flags=frozenset(flag for tool in tools.values() for flag in tool.flags),
        )
        return agent if len(self._problems) == before else None

    def _tools(self) -> dict[str, CompiledTool]:
        timeout_s = self._document.limits.tool_timeout_s
        found: dict[str, CompiledTool] = {}
        for name, tool in self._document.tools.items():
            if isinstance(tool, HttpTool):
                compiled = compile_tool(
                    tool,
                    f"tools.{name}",
                    self._base_url,
                    self._problems,
                    secrets=self._secrets,
                    timeout_s=timeout_s,
                )
                if compiled is not None:
                    found[name] = compiled
        return found

    def _session(self, session: FetchedSession) -> CompiledSession | None:
        at, mapping, fallback = "session.response_mapping", session.response_mapping, session.fallback
        request = self._request(session, "session", SESSION_REQUEST)
        names = with_response(SESSION_REQUEST)
        instructions = self._path(mapping.instructions, f"{at}.instructions", names)
        tools, voice = (
            self._path(mapping.tools, f"{at}.tools", names),
            self._path(mapping.voice, f"{at}.voice", names),
        )
        ctx_init = compile_store(mapping.ctx_init, f"{at}.ctx_init", names, self._problems)
        spare = fallback and fallback.instructions
        spare_template = self._template(spare, "session.fallback.instructions", INSTRUCTIONS)
        if request is None or instructions is None:
            return None
        return CompiledSession(
            request=request,
            instructions=instructions,
            tools=tools,
            voice=voice,
            ctx_init=ctx_init,
            fallback=spare_template,
            fallback_declarations=tuple(fallback.tools) if fallback else (),
        )

    def _checks(self, checks: Sequence[PreCallCheck]) -> tuple[CompiledCheck, ...]:
        found: list[CompiledCheck] = []
        for index, check in enumerate(checks):
            where = f"pre_call_checks.{index}"
            request = self._request(check, where, CHECK)
            block_if = self._expression(check.block_if, f"{where}.block_if", BLOCK_IF)
            message = self._template(check.message, f"{where}.message", CHECK)
            if request is not None and block_if is not None:
                compiled = CompiledCheck(
                    name=check.name,
                    request=request,
                    block_if=block_if,
                    message=message if check.on_block == "message" else None,
                    blocks_on_error=check.on_error == "block",
                )
                found.append(compiled)
        return tuple(found)

    def _greeting(self, greeting: Greeting | None) -> CompiledGreeting | None:
        if greeting is None:
            return None
        known = self._template(greeting.known_customer, "greeting.known_customer", GREETING)
        unknown = self._template(greeting.unknown_customer, "greeting.unknown_customer", GREETING)
        condition = None if greeting.condition_field is None else self._value(greeting.condition_field)
        first = known or unknown
        if first is None:
            return None
        return CompiledGreeting(
            known=first, unknown=unknown or first, condition=condition, interruptible=greeting.interruptible
        )

    def _value(self, path: str) -> ValueTemplate | None:
        """Return the path of a greeting's condition as a template, which gives its value."""
        try:
            return parse_template(f"{{{{{path}}}}}", GREETING)
        except BadText as bad:
            column = None if bad.column is None else max(1, bad.column - 2)
            self._problems.append(replace(bad.at("greeting.condition_field"), column=column))
            return None

    def _no_action(self) -> LifecycleRequest | None:
        request, where = self._document.lifecycle.on_no_action, "lifecycle.on_no_action"
        if request is None:
            return None
        names = AT_END - {"outcome"}
        condition = self._expression(request.condition, f"{where}.condition", names)
        return self._start(request, where, names, condition)

    def _start(
        self, request: StartRequest | None, where: str, names: Names, condition: Expression | None = None
    ) -> LifecycleRequest | None:
        if request is None:
            return None
        store = compile_store(
            request.store_in_ctx, f"{where}.store_in_ctx", with_response(names), self._problems
        )
        return self._moment(request, where, names, condition, store)

    def _moment(
        self,
        model: RequestLike | None,
        where: str,
        names: Names,
        condition: Expression | None = None,
        store: tuple[tuple[str, Path], ...] = (),
    ) -> LifecycleRequest | None:
        request = self._request(model, where, names) if model is not None else None
        return LifecycleRequest(request=request, condition=condition, store=store) if request else None

    def _request(self, model: RequestLike, where: str, names: Names) -> CompiledRequest | None:
        return compile_request(
            model, where, names, self._problems, base_url=self._base_url, secrets=self._secrets
        )

    def _template(self, source: str | None, where: str, names: Names) -> ValueTemplate | None:
        if source is None:
            return None
        return noted(self._problems, where, lambda: parse_template(source, names))

    def _expression(self, source: str, where: str, names: Names) -> Expression | None:
        return noted(self._problems, where, lambda: parse_expression(source, names))

    def _path(self, source: str | None, where: str, names: Names) -> Path | None:
        return None if source is None else noted(self._problems, where, lambda: parse_path(source, names))


def _in_order(rules: Sequence[OutcomeRule]) -> tuple[OutcomeRule, ...]:
    """Return the rules by priority, ties by position."""
    positions = {id(rule): place for place, rule in enumerate(rules, 1)}

    def rank(rule: OutcomeRule) -> tuple[int, int]:
        place = positions[id(rule)]
        return (place if rule.priority is None else rule.priority, place)

    return tuple(sorted(rules, key=rank))
