"""Runs the agent and a baseline on cases, scores their answers, and measures their cost.

The baseline is one call of the same model with the whole graph as JSON and, for a change, the write
tools. Every change runs on a copy of its graph; its proposals are approved and the resulting graph
is compared.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from datasources.base import MutableGraphDataSource
from graphrag.agent import events
from graphrag.agent.loop import Agent
from graphrag.agent.requested_calls import CallLog, Requested
from graphrag.agent.thread_store import ThreadError
from graphrag.agent.tool_calls import CallPlace, ToolCalls
from graphrag.approvals import ApprovalError, Approvals, Approve, Person
from graphrag.embedding.embedder import EmbeddingProvider
from graphrag.evaluation.answer_cases import (
    AskedChange,
    AskedQuestion,
    Case,
    CaseGraph,
    copy_graph,
    store_graph,
)
from graphrag.evaluation.answer_scoring import ScoredAnswer, Verdict, score_answer
from graphrag.evaluation.expected_graph import score_change
from graphrag.i18n import Language
from graphrag.llm import base as llm
from graphrag.llm.errors import ModelError
from graphrag.llm.metered import ModelRequest, metered_call
from graphrag.llm.registry import Pricing
from graphrag.llm.usage_meter import CallUsage, UsageMeter
from tools.actions.field_changes import json_document
from tools.tool_box import ToolBox
from tools.toon import compact_json

Way = Literal["agent", "baseline"]
WAYS: Final[tuple[Way, ...]] = ("agent", "baseline")
MAX_DECISIONS = 20  # approved proposals in one case
MAX_ANSWER_CHARS = 8_000  # characters stored of an answer
# Errors that would occur again and therefore count as results. Cases with other errors run again.
FINAL_ERRORS = frozenset(("context_length", "content_filter", "request_refused"))

_NOT_SENT = frozenset(("graphKey", "posX", "posY", "size", "handles", "typeVersion"))
_QUESTION_PROMPT = "Answer the question from the workflow below alone, in a few sentences.\n\n"
_CHANGE_PROMPT = (
    "Make the change to the workflow below that is asked for, by calling the functions.\n\n"
)


class AnswerRow(BaseModel):
    """The result of one case in one way.

    `malformed` counts calls refused because of their arguments. `marked`: the person was told that
    the answer claims something that is not in the graph. Units: tokens; seconds; `cost_usd` is None
    if the price is unknown.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    case: str
    digest: str
    kind: Literal["question", "change"]
    way: Way
    provider: str
    model: str
    verdict: Verdict
    missing: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()
    marked: bool = False
    rounds: int = Field(ge=0)
    tool_calls: int = Field(ge=0)
    malformed: int = Field(ge=0)
    proposals: int = Field(ge=0)
    prompt: int = Field(ge=0)
    completion: int = Field(ge=0)
    cost_usd: float | None
    seconds: float = Field(ge=0)
    error: str | None = None
    answer: str = ""

    @property
    def is_final(self) -> bool:
        """Whether the case has a result and does not run again."""
        return self.error is None or self.error in FINAL_ERRORS

    @property
    def identity(self) -> tuple[str, ...]:
        """Identifies the case, the way and the model of a result."""
        return (self.case, self.digest, self.way, self.provider, self.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSetting:
    """The environment of cases: a scratch database, the agent, and the same model for the
    baseline.
    """

    source: MutableGraphDataSource
    approvals: Approvals
    embedder: EmbeddingProvider | None
    agent: Agent
    provider: llm.LLMProvider
    pricing: Pricing
    meter: UsageMeter
    box: ToolBox
    call_log: CallLog
    person: Person
    language: Language
    call_place: Callable[..., CallPlace]

    def identity(self, case: Case, way: Way) -> tuple[str, ...]:
        """Returns the identity of the row of a case."""
        return (case.id, case.digest, way, self.provider.name, self.provider.model)


@dataclass(slots=True, kw_only=True)
class _Run:
    """The intermediate result of a case."""

    text: str = ""
    rounds: int = 0
    calls: int = 0
    malformed: int = 0
    proposals: int = 0
    marked: bool = False
    usage: llm.UsageReport | None = None
    costs: list[float | None] = field(default_factory=list[float | None])
    error: str | None = None


async def run_cases(
    setting: AnswerSetting,
    cases: Sequence[Case],
    graphs: Mapping[str, CaseGraph],
    *,
    done: frozenset[tuple[str, ...]] = frozenset(),
    ways: Sequence[Way] = WAYS,
) -> AsyncGenerator[AnswerRow]:
    """Yields the result of each case in each way in order, except those with identities in `done`.

    `graphs` are the graphs of the files of the cases. Raises: ValueError for a case that does not
    fit its graph.
    """
    stored: set[str] = set()
    for number, case in enumerate(cases):
        for way in ways:
            if setting.identity(case, way) in done:
                continue
            graph = graphs[case.file]
            if case.kind == "change":
                graph = copy_graph(graph, f"{graph.graph.key}-{way}-{number}")
            if graph.graph.key not in stored:
                stored.add(graph.graph.key)
                await store_graph(setting.source, setting.embedder, graph)
            yield await _result(setting, case, graph, way)


async def _result(setting: AnswerSetting, case: Case, graph: CaseGraph, way: Way) -> AnswerRow:
    began = time.monotonic()
    run = await (_ask_agent if way == "agent" else _ask_once)(setting, case, graph)
    seconds = time.monotonic() - began
    scored = await _scored(setting, case.asked, graph, run)
    usage = run.usage or llm.UsageReport()
    costs = [cost for cost in run.costs if cost is not None]
    return AnswerRow(
        case=case.id,
        digest=case.digest,
        kind=case.kind,
        way=way,
        provider=setting.provider.name,
        model=setting.provider.model,
        verdict=scored.verdict,
        missing=scored.missing,
        invented=scored.invented,
        marked=run.marked,
        rounds=run.rounds,
        tool_calls=run.calls,
        malformed=run.malformed,
        proposals=run.proposals,
        prompt=usage.prompt,
        completion=usage.completion,
        cost_usd=sum(costs) if len(costs) == len(run.costs) else None,
        seconds=round(seconds, 3),
        error=run.error,
        answer=run.text[:MAX_ANSWER_CHARS],
    )


async def _scored(
    setting: AnswerSetting, asked: AskedQuestion | AskedChange, graph: CaseGraph, run: _Run
) -> ScoredAnswer:
    if isinstance(asked, AskedQuestion):
        return score_answer(run.text, asked, graph)
    nodes = await setting.source.get_nodes(graph.graph.key)
    edges = await setting.source.get_edges(graph.graph.key)
    after = CaseGraph(
        graph=graph.graph,
        nodes={node.key: node for node in nodes},
        edges={edge.key: edge for edge in edges},
    )
    return score_change(graph, after, asked)


async def _ask_agent(setting: AnswerSetting, case: Case, graph: CaseGraph) -> _Run:
    """Asks the agent in a new conversation, and approves its proposals for a change."""
    run = _Run()
    key = graph.graph.key
    turn = setting.agent.run(None, key, case.asked.ask, setting.person, interactive=False)
    thread_id = ""
    try:
        for _ in range(MAX_DECISIONS + 1):
            ending = await _follow(turn, run)
            thread_id = ending.thread_id if ending is not None else thread_id
            if isinstance(ending, events.Failed):
                run.error = ending.fault.code
            if not isinstance(ending, events.ProposalPending):
                break
            if case.kind == "question":  # proposals for a question are not approved
                run.proposals += len(ending.approvals)
                break
            run.proposals += 1
            turn = setting.agent.resume(
                thread_id, setting.person, decision=Approve(), interactive=False
            )
    except (ApprovalError, ThreadError) as exc:
        run.error = type(exc).__name__
    run.malformed += _malformed(setting, thread_id)
    return run


async def _follow(turn: AsyncGenerator[events.Event], run: _Run) -> events.Ending | None:
    """Counts the events of a turn and returns its last one."""
    last: events.Event | None = None
    async with aclosing(turn) as shown:
        async for event in shown:
            last = event
            if isinstance(event, events.UsageReported):
                run.rounds += 1
                run.usage = llm.add_usage(run.usage, _tokens(event))
                run.costs.append(event.cost_usd)
            elif isinstance(event, events.ToolFinished):
                run.calls += 1
    if not isinstance(last, events.Ending):
        return None
    run.marked = run.marked or (
        isinstance(last, events.Completed) and last.not_in_graph is not None
    )
    if not isinstance(last, events.Failed):
        run.text = "\n".join(part for part in (run.text, last.text) if part)
    return last


def _tokens(report: llm.UsageReport) -> llm.UsageReport:
    return llm.UsageReport(**{name: getattr(report, name) for name in llm.TOKENS})


def _malformed(setting: AnswerSetting, thread_id: str) -> int:
    """Returns the number of tool calls refused because of their arguments."""
    calls = setting.call_log.of((setting.person.workspace,))
    return sum(call.thread_id == thread_id and call.refused is not None for call in calls)


async def _ask_once(setting: AnswerSetting, case: Case, graph: CaseGraph) -> _Run:
    """Asks the model in one call, with the whole graph as JSON."""
    run = _Run(rounds=1)
    key = graph.graph.key
    is_change = case.kind == "change"
    instructions = (_CHANGE_PROMPT if is_change else _QUESTION_PROMPT) + graph_as_json(graph)
    request = ModelRequest(
        messages=(llm.SystemMessage(content=instructions), llm.UserMessage(content=case.asked.ask)),
        tools=_write_tools(setting) if is_change else (),
        options=llm.DEFAULT_OPTIONS,
    )
    used: list[CallUsage] = []
    calls: list[llm.ToolCall] = []
    provider = setting.provider
    try:
        async with (
            metered_call(provider, request, setting.meter, setting.pricing, used=used) as counted,
            aclosing(provider.stream(request.messages, request.tools, request.options)) as chunks,
        ):
            async for chunk in chunks:
                counted.feed(chunk)
                if isinstance(chunk, llm.TextDelta):
                    run.text += chunk.text
                elif isinstance(chunk, llm.TextWasThinking):
                    run.text = ""
                elif isinstance(chunk, llm.ToolCallReady):
                    calls.append(chunk.call)
                elif isinstance(chunk, llm.ToolCallCut):
                    run.malformed += 1
    except ModelError as exc:
        run.error = events.classify(exc).code
    for call_usage in used:
        run.usage = llm.add_usage(run.usage, call_usage.tokens)
        run.costs.append(call_usage.cost_usd)
    run.calls = len(calls) + run.malformed
    if calls and is_change and run.error is None:
        await _run_calls(setting, key, calls, run)
    return run


async def _run_calls(
    setting: AnswerSetting, key: str, calls: Sequence[llm.ToolCall], run: _Run
) -> None:
    """Runs the calls of the baseline and approves their proposals."""
    thread_id = f"baseline-{key}"
    place = setting.call_place(
        key,
        setting.person,
        setting.language,
        thread_id=thread_id,
        turn=1,
        model=setting.provider.model,
    )
    running = ToolCalls(setting.box, setting.approvals, log=setting.call_log)
    results = [result async for result in running.run(Requested(calls=calls), place)]
    run.malformed += _malformed(setting, thread_id)
    approvals = [result.approval for result in results if result.approval is not None]
    run.proposals = len(approvals)
    await setting.approvals.decide_all(approvals, Approve(), setting.person)


def _write_tools(setting: AnswerSetting) -> list[llm.ToolSchema]:
    offered = setting.box.offered(setting.person.role)
    return [tool.schema() for tool in offered if tool.effect == "proposes"]


def graph_as_json(graph: CaseGraph) -> str:
    """Returns a graph as JSON: its nodes without positions and handles, and its edges."""
    return compact_json(
        {
            "name": graph.graph.name,
            **{
                kind: [
                    {
                        name: value
                        for name, value in json_document(document).items()
                        if name not in _NOT_SENT
                    }
                    for document in documents.values()
                ]
                for kind, documents in (("nodes", graph.nodes), ("edges", graph.edges))
            },
        }
    )
