"""Runs the tools of a call: each once, and stores changes before the model gets the output.

Decision: proposals of callers are always decided by a person, whatever the levels of the workspace
say. A caller is not identified: `caller:…` may ask in approvals and audit, but decides nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast, final

from datasources.errors import GraphNotFound, SourceError
from graphrag.agent.requested_calls import Answered, Requested
from graphrag.agent.thread_agent import AgentToolCall
from graphrag.agent.thread_store import ThreadError
from graphrag.agent.tool_calls import CallPlace, ToolCalls
from graphrag.agent.turn_lease import TurnLease
from graphrag.agents.chat_values import language_of
from graphrag.agents.compiled_agent import graphs_of
from graphrag.agents.document_assistant import declarations_of
from graphrag.agents.toolbox import TRANSFER, AgentTools, agent_role
from graphrag.approvals import CHAT_SESSION, Approval, outcome_text
from graphrag.approvals.voice_codes import new_code
from graphrag.bridge.signals import RunTool, ToolAnswered
from graphrag.i18n import Language, text
from graphrag.llm.base import ToolCall
from graphrag.roles import CALLER, ClientInfo, Person
from graphrag.voice.call_records import Call
from graphrag.voice.call_thread import CallThread
from graphrag.voice.dependencies import CallDependencies
from tools.arguments import MalformedArguments, parse_arguments
from tools.base import GRAPH_ARGUMENT, Problem, Role, ToolContext, ToolError, ToolResult, failure
from tools.compact import cut
from tools.http.tool_run import ToolOutcome
from tools.tool_box import ToolBox

log = logging.getLogger(__name__)

MAX_PROPOSALS: Final = 5  # of one call
CODE_ATTEMPTS: Final = 5  # to draw a code that no pending proposal has
NAME_CHARS: Final = 100
ID_CHARS: Final = 200
ARGUMENT_CHARS: Final = 2_000
RESULT_CHARS: Final = 4_000
MAX_NODES: Final = 50
MAX_SOURCES: Final = 200
_FAILED: Final = '{"success":false,"error":"the tool could not be run; tell the caller"}'

_READS: Final = frozenset(
    ("search_nodes", "read_node_detail", "explore_neighborhood", "read_subgraph", "list_node_edges")
)


@final
@dataclass(slots=True, kw_only=True)
class CallTools:
    """The tools of one call. `show` sends a message to the followers of the call.

    `proposed`: spoken codes by approval id; `waiting`: ids of pending approvals. `sources`: nodes
    returned by graph tools, by turn and graph. `turn`: number of utterances of the caller.
    """

    deps: CallDependencies
    thread: CallThread
    hold: TurnLease
    show: Callable[[dict[str, Any]], None]
    turn: int = 0
    proposed: dict[str, str] = field(default_factory=dict[str, str])
    waiting: set[str] = field(default_factory=set[str])
    sources: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _outcomes: dict[str, ToolOutcome] = field(default_factory=dict[str, ToolOutcome])
    _in_order: asyncio.Lock = field(default_factory=asyncio.Lock)
    _calls: ToolCalls = field(init=False)
    box: ToolBox = field(init=False)
    language: Language = field(init=False)

    def continue_from(self, call: Call) -> None:
        """Goes on with what the tools did before the caller came back after a transfer."""
        codes = {str(row["approvalId"]): str(row["spokenCode"]) for row in call.approvals}
        self.proposed.update(codes)
        self.waiting.update(str(row["approvalId"]) for row in call.approvals if not row.get("told"))
        self.sources = list(call.sources)
        entries = self.thread.part.transcript
        self.turn = sum(entry.get("role") == "user" for entry in entries)

    def __post_init__(self) -> None:
        agent = self.thread.agent
        about = self.thread.graph_key
        self.language = language_of(agent, self.deps.life.locale)
        graphs = graphs_of(agent, about)
        self.box = AgentTools(
            agent=agent,
            declarations=declarations_of(agent, self.thread.part),
            values=self.thread.values,
            executor=self.deps.agents.executor(agent.agent_id),
            take_start=self.thread.take_start,
            graphs=graphs,
            proposes=self.role == "editor",
            outcomes=self._outcomes,
            transfers=True,
        ).box()
        self._calls = self.deps.tools.with_tools(self.box, graphs)

    @property
    def role(self) -> Role:
        return agent_role(self.thread.agent, "editor")

    @property
    def person(self) -> Person:
        client = ClientInfo(channel="voice")
        return Person(f"{CALLER}{self.thread.call_id}", self.role, self.thread.workspace, client)

    def caller_spoke(self) -> None:
        """Counts an utterance of the caller."""
        self.turn += 1

    async def run(self, wanted: RunTool) -> ToolAnswered:
        """Runs a tool call of the model. Returns an output also after failures.

        Tools with effects run one after another.
        """
        return (await self.run_whole(wanted))[0]

    async def run_whole(self, wanted: RunTool) -> tuple[ToolAnswered, Answered]:
        """Runs a tool call as `run` does. Returns its output, and the answer of the tool."""
        tool = self.box.get(wanted.name)
        self._show(wanted, phase="started")
        try:
            if tool is None or tool.effect == "read":
                answered = await self._answered(wanted)
            else:
                async with self._in_order:
                    answered = await self._answered(wanted)
            output = await self._store(wanted, answered)
        except (ThreadError, SourceError) as exc:
            facts = {"call_id": self.thread.call_id, "agent_id": self.thread.agent.agent_id}
            facts |= {"tool": wanted.name[:80], "error": type(exc).__name__}
            log.warning("call_tool_failed", extra=facts)
            self._show(wanted, phase="finished", ok=False)
            call = ToolCall(id=wanted.call_id, name=wanted.name, arguments=wanted.arguments)
            failed = failure("unavailable", Problem(what="not stored"))
            return ToolAnswered(wanted.call_id, _FAILED), Answered(call=call, result=failed)
        entry = self.thread.tools[wanted.call_id]
        facts = {"status": entry.status} if entry.status else {}
        self._show(wanted, phase="finished", ok=entry.ok, ms=entry.ms, **facts)
        ends = not answered.result.is_error and wanted.name in self.thread.agent.builtins
        data: Any = answered.result.data
        chosen = (
            cast(dict[str, Any], data).get(TRANSFER) if ends and isinstance(data, dict) else None
        )
        limit = self.thread.agent.document.limits.result_chars
        done = ToolAnswered(wanted.call_id, cut(output, limit), ends=ends, destination=chosen)
        return done, answered

    def _show(self, wanted: RunTool, **facts: Any) -> None:
        about = {"toolCallId": wanted.call_id, "name": wanted.name[:NAME_CHARS]}
        self.show({"type": "call:tool", **about, **facts})

    async def _answered(self, wanted: RunTool) -> Answered:
        call = ToolCall(id=wanted.call_id, name=wanted.name, arguments=wanted.arguments)
        if (recorded := self._recorded(call)) is not None:
            return recorded
        self.thread.update_transcript()
        place = self._place(wanted)
        if self._calls.writes(wanted.name):
            if len(self.proposed) >= MAX_PROPOSALS:
                refused = text("voice_too_many_proposals", self.language, n=MAX_PROPOSALS)
                return Answered(call=call, result=failure("not_permitted", Problem(what=refused)))
            code = await self._free_code()
            session = replace(CHAT_SESSION, require_validation=True, voice_code=code)
            place = replace(place, session=session)
        async with aclosing(self._calls.run(Requested(calls=[call]), place)) as answers:
            return await anext(answers)

    def _recorded(self, call: ToolCall) -> Answered | None:
        """Returns the recorded result of a call, and sets the flags of its tool.

        None for a call that the document does not allow, so that it fails as any other.
        """
        if self.deps.recorded is None or call.name in self.thread.agent.builtins:
            return None
        if not self.box.accepts(call.name, call.arguments):
            return None
        recorded = self.deps.recorded(call.name, _arguments(call.arguments))
        if recorded is None:
            return None
        result = str(recorded.get("result") or "")
        compiled = self.thread.agent.tools.get(call.name)
        if recorded.get("ok") is not True:
            error = ToolError(code="unavailable", problems=(Problem(what="recorded so"),))
            return Answered(call=call, result=ToolResult(text=result, error=error))
        if compiled is not None:
            self.thread.values.ctx.update(dict.fromkeys(compiled.model.on_success_flags, True))
        return Answered(call=call, result=ToolResult(text=result))

    def _place(self, wanted: RunTool) -> CallPlace:
        async def begin_act(_: str) -> None:
            """Stores that the act may have been carried out from now on."""
            self.thread.tools[wanted.call_id] = self._entry(wanted)
            await self.thread.save()

        async def end_act(answered: Answered) -> None:
            self._log(wanted, answered)
            await self.thread.save()

        return CallPlace(
            context=ToolContext(
                source=self.deps.source,
                graph_key=self.thread.graph_key,
                role=self.role,
                language=self.language,
                search=self.deps.search,
                history=self.deps.history,
            ),
            person=self.person,
            thread_id=self.thread.call_id,
            turn=self.turn,
            model=self._model_name(),
            write_guard=self.hold.write,
            begin_act=begin_act,
            end_act=end_act,
        )

    def _model_name(self) -> str:
        document = self.thread.agent.document
        if document.voice.engine == "realtime":
            return document.openai.model
        return document.chat.model or "chat"

    async def _store(self, wanted: RunTool, answered: Answered) -> str:
        """Stores the effects of a call unless its act did. Returns the text for the model."""
        entry = self.thread.tools.get(wanted.call_id)
        if entry is None or entry.result is None:
            changes = wanted.call_id in self._outcomes or wanted.name in self.thread.agent.builtins
            self._log(wanted, answered)
            if changes:
                await self.thread.save()
        if answered.approval is not None:
            return self._proposal(answered, answered.approval)
        if not answered.result.is_error:
            await self._note_sources(wanted, answered.result.data)
        return answered.result.text

    def _entry(self, wanted: RunTool, **facts: Any) -> AgentToolCall:
        return AgentToolCall(
            tool_call_id=wanted.call_id[:ID_CHARS],
            name=wanted.name[:NAME_CHARS],
            arguments=wanted.arguments[:ARGUMENT_CHARS],
            turn=self.turn,
            **facts,
        )

    def _log(self, wanted: RunTool, answered: Answered) -> None:
        outcome = self._outcomes.pop(wanted.call_id, None)
        if outcome is None:  # it sent no request, so its run is not reported yet
            executor = self.deps.agents.executor(self.thread.agent.agent_id)
            done = ToolOutcome(value=None, ok=not answered.result.is_error, ms=round(answered.ms))
            executor.report(wanted.name, wanted.arguments, self.thread.values, done)
        self.thread.tools[wanted.call_id] = self._entry(
            wanted,
            ok=not answered.result.is_error and (outcome is None or outcome.ok),
            ms=round(answered.ms),
            status=outcome.status if outcome else None,
            result=answered.result.text[:RESULT_CHARS],
        )

    async def _free_code(self) -> str:
        """Returns a code that no pending proposal of the workspace has."""
        code = new_code(self.language)
        for _ in range(CODE_ATTEMPTS):
            pending = await self.deps.approvals.list(
                voice_code=code, status="pending", limit=1, by=self.person
            )
            if not pending:
                break
            code = new_code(self.language)
        return code

    def _proposal(self, answered: Answered, approval: Approval) -> str:
        code = approval.voice_code or ""
        self.proposed[approval.id] = code
        self.waiting.add(approval.id)
        self.show({"type": "call:proposal", "approvalId": approval.id, "spokenCode": code})
        return f"{answered.result.text}\n{text('voice_proposed', self.language, code=code)}"

    async def decided(self, approval_id: str) -> str | None:
        """Returns a note for the model about a decision, once; None if there is none.

        Raises: SourceError, ApprovalNotFound.
        """
        if approval_id not in self.waiting:
            return None
        approval = await self.deps.approvals.get(approval_id, self.person)
        if approval.is_open or approval_id not in self.waiting:
            return None
        self.waiting.discard(approval_id)
        outcome = outcome_text(approval, self.language)
        return text(
            "voice_decided", self.language, code=self.proposed[approval_id], outcome=outcome
        )

    async def _note_sources(self, wanted: RunTool, data: Any) -> None:
        """Records the nodes that a graph tool returned for the last utterance."""
        nodes = _nodes(wanted, data)[:MAX_NODES] if wanted.name in _READS else []
        if not nodes:
            return
        graph_key = str(_arguments(wanted.arguments).get(GRAPH_ARGUMENT) or self.thread.graph_key)
        with suppress(GraphNotFound):
            graph = await self.deps.source.get_graph(graph_key)
            about = {"turn": self.turn, "graph": graph_key, "revision": graph.revision}
            source = next((each for each in self.sources if each.items() >= about.items()), None)
            if source is not None:
                self.sources.remove(source)
                nodes = list(dict.fromkeys([*source["nodes"], *nodes]))[:MAX_NODES]
            self.sources = [*self.sources, {**about, "nodes": nodes}][-MAX_SOURCES:]
            self.show({"type": "call:sources", **self.sources[-1]})


def _arguments(written: str) -> dict[str, Any]:
    try:
        return parse_arguments(written).values
    except MalformedArguments:
        return {}


def _nodes(wanted: RunTool, data: Any) -> list[str]:
    """Returns the keys of the nodes in the result of a graph tool."""
    if wanted.name == "read_node_detail":
        key = _arguments(wanted.arguments).get("nodeKey")
        return [key] if isinstance(key, str) else []
    nodes: Any = cast(dict[str, Any], data).get("nodes", ()) if isinstance(data, dict) else data
    rows = cast(list[Any], nodes) if isinstance(nodes, list) else []
    keys = (cast(dict[str, Any], row).get("_key") for row in rows if isinstance(row, dict))
    return [key for key in keys if isinstance(key, str)]
