"""What the server counts for Prometheus. No label names a person, a workspace or a graph."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from graphrag.agent.events import (
    ActionApplied,
    Completed,
    Event,
    Failed,
    ProposalPending,
    QuestionAsked,
    ToolFinished,
    ToolLimit,
)
from graphrag.agent.requested_calls import CallRecord
from graphrag.agent.thread_store import Thread
from graphrag.approvals import Approval
from graphrag.embedding.queue import EmbeddingQueue
from graphrag.embedding.refresh import EmbedReport
from graphrag.llm.usage_meter import CallUsage
from graphrag.voice.call_watch import CALL_COUNTS, CALL_SECONDS, CallWatch

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_CALL_SECONDS = (0.0005, 0.001, 0.002, *_SECONDS, 600, 900, 1800)
_METHODS = ("GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS")


MAX_AGENT_TOOLS, MAX_AGENTS = 200, 200
MAX_VOICE_CODES, MAX_CODE_CHARS = 50, 60


class _Made:
    """Makes metrics of one registry; their names begin with `nodius_`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

    def counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"nodius_{name}", meaning, labels, registry=self.registry)

    def gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(f"nodius_{name}", meaning, labels, registry=self.registry)

    def seconds(
        self, name: str, meaning: str, *labels: str, buckets: Sequence[float] = _SECONDS
    ) -> Histogram:
        name = f"nodius_{name}_seconds"
        return Histogram(name, meaning, labels, buckets=buckets, registry=self.registry)


class Metrics(CallWatch):
    """The counters of one server, in a registry of its own. Watches live graphs (LiveWatch) and calls."""

    def __init__(self) -> None:
        made = _Made()
        counter, gauge, seconds = made.counter, made.gauge, made.seconds
        self.registry = made.registry
        self._count_calls(made)
        self._requests = counter("http_requests", "Requests answered", "method", "route", "status")
        self._request_s = seconds("http_request", "Time of a request", "route")
        self._calls = counter("model_calls", "Calls of models and embedders", "kind", "provider")
        self._tokens = counter("model_tokens", "Tokens of models", "provider", "model", "direction")
        self._cost = counter("model_cost_dollars", "Known cost of models", "provider")
        self._tools = counter("tool_calls", "Calls of tools by models", "tool", "error")
        self._tool_s = seconds("tool", "Time of a tool, without what was refused or remembered", "tool")
        self._refused = counter("tool_refused", "Calls of tools that were not run, by why", "why")
        self._turns = counter("turns", "Turns by how they ended", "ending")
        self._running = gauge("turns_running", "Turns under way")
        self._turn_s = seconds("turn", "Time of a turn until it ends or waits")
        self._sessions = counter("sessions", "Runs of automations that ended", "kind", "reason")
        self._start_delay = seconds("session_start_delay", "From the time of a run to its start")
        self._occurrences = counter("occurrences", "Times of automations by what became of them", "result")
        self._agent_tool_s = seconds("agent_tool", "Time of a tool of an agent", "agent", "tool", "ok")
        self._agent_tools: set[tuple[str, str]] = set()
        self._deliveries = counter("deliveries", "Attempts to send what APIs of agents are owed", "status")
        self._decisions = counter("approval_decisions", "Decisions by what became of them", "status")
        self._proposals = counter("proposals", "Proposals that wait for people")
        self._edits = counter("live_edits", "Messages of live editing", "kind", "ok")
        self._saves = counter("live_saves", "Saves of live graphs", "ok")
        self._save_s = seconds("live_save", "Time of a save of a live graph")
        self._journalled = counter(
            "live_journalled", "Changes of live graphs by whether they were kept", "ok"
        )
        self._journal_s = seconds("live_journal", "Time of a write to the journal")
        self._embedded = counter("embedded_nodes", "Nodes embedded in the background", "outcome")
        self._embedding_pending = gauge("embedding_pending", "Nodes that wait to be embedded")
        self._embedding_given_up = gauge(
            "embedding_given_up", "Nodes left to embed-nodes after failing too often"
        )
        self._retrieval_s = seconds("retrieval", "Time of a retrieval, also of a remembered one")
        self._loop_late = counter("event_loop_late", "Times that the event loop was late by more than 250 ms")

    def _count_calls(self, made: _Made) -> None:
        counter, gauge, seconds = made.counter, made.gauge, made.seconds
        self._voice_errors = counter("voice_errors", "What went wrong in calls", "code")
        self._voice_calls = gauge("voice_calls", "Calls that are open here", "agent", "state")
        self._voice_counts = {name: counter(name, CALL_COUNTS[name]) for name in CALL_COUNTS}
        self._voice_s = {
            name: seconds(name.removesuffix("_seconds"), CALL_SECONDS[name], buckets=_CALL_SECONDS)
            for name in CALL_SECONDS
        }
        self._voice_codes: set[str] = set()
        self._voice_agents: set[str] = set()
        self._voice_open: dict[str, tuple[str, str]] = {}

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        known = method if method in _METHODS else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._request_s.labels(route).observe(seconds)

    def model_call(self, call: CallUsage) -> None:
        self._calls.labels(call.kind, call.provider).inc()
        used = {"prompt": call.tokens.prompt, "completion": call.tokens.completion}
        for direction, tokens in (used | {"cached": call.tokens.cached}).items():
            self._tokens.labels(call.provider, call.model, direction).inc(max(0, tokens))
        if call.cost_usd:
            self._cost.labels(call.provider).inc(max(0.0, call.cost_usd))

    def turn_began(self) -> None:
        self._running.inc()

    def turn_ended(self, seconds: float) -> None:
        self._running.dec()
        self._turn_s.observe(seconds)

    def event(self, event: Event, known_tools: frozenset[str]) -> None:
        """Count an event of a turn; a tool that a model made up is `other`."""
        match event:
            case ToolFinished():
                name = event.name if event.name in known_tools else "other"
                self._tools.labels(name, str(event.is_error).lower()).inc()
            case ProposalPending():
                self._proposals.inc(len(event.approvals))
                self._turns.labels("proposal").inc()
            case Completed():
                self._turns.labels("answer").inc()
            case ToolLimit():
                self._turns.labels("tool_limit").inc()
            case QuestionAsked():
                self._turns.labels("question").inc()
            case Failed():
                self._turns.labels(event.fault.code).inc()
            case ActionApplied() | _:
                pass

    def tool_call(self, call: CallRecord, known_tools: frozenset[str]) -> None:
        """Count how long a call took, or why it was not run."""
        if call.refused is not None:
            self._refused.labels(call.refused).inc()
        elif call.outcome != "reused":
            self._tool_s.labels(call.tool if call.tool in known_tools else "other").observe(call.ms / 1000)

    def agent_tool(self, agent: str, tool: str, seconds: float, ok: bool) -> None:
        """Count a run of a tool; those of the first MAX_AGENT_TOOLS have labels of their own."""
        if (agent, tool) not in self._agent_tools:
            if len(self._agent_tools) < MAX_AGENT_TOOLS:
                self._agent_tools.add((agent, tool))
            else:
                agent = tool = "other"
        self._agent_tool_s.labels(agent, tool, str(ok).lower()).observe(seconds)

    def counted(self, name: str, value: float = 1.0, *, code: str = "") -> None:
        """Count or measure something of a call (see CallWatch)."""
        if name == "voice_errors":
            if len(self._voice_codes) < MAX_VOICE_CODES:  # a model's server has codes of its own
                self._voice_codes.add(code)
            known = code in self._voice_codes and len(code) <= MAX_CODE_CHARS
            self._voice_errors.labels((known and code) or "other").inc(value)
        elif name in self._voice_counts:
            self._voice_counts[name].inc(value)
        elif name in self._voice_s:
            self._voice_s[name].observe(value)

    def state(self, call_id: str, agent_id: str, status: str | None) -> None:
        """Count a call under its status; those of the first MAX_AGENTS agents have labels of their own."""
        if agent_id not in self._voice_agents and len(self._voice_agents) < MAX_AGENTS:
            self._voice_agents.add(agent_id)
        agent = agent_id if agent_id in self._voice_agents else "other"
        before = self._voice_open.pop(call_id, None)
        if before is not None:
            self._voice_calls.labels(*before).dec()
        if status is not None:
            self._voice_open[call_id] = (agent, status)
            self._voice_calls.labels(agent, status).inc()

    def loop_late(self) -> None:
        self._loop_late.inc()

    def delivery(self, status: str) -> None:
        """Count an attempt to send a delivery, by the status that it has then."""
        self._deliveries.labels(status).inc()

    def decided(self, approval: Approval) -> None:
        """Count a decision, wherever it was made in this server; an undo is `undone`."""
        self._decisions.labels("undone" if approval.undoes else approval.status).inc()

    def run_left(self, thread: Thread) -> None:
        """Count a run that ended."""
        session = thread.session
        if session is None or session.end_reason is None or session.ended_time is None:
            return
        self._sessions.labels(session.kind.value, session.end_reason.value).inc()
        if session.started_time is not None:
            self._start_delay.observe(max(0, session.started_time - session.scheduled_time) / 1000)

    def occurrence(self, result: str) -> None:
        """Count a scheduled time: `run`, or why it made no run."""
        self._occurrences.labels(result).inc()

    def live_edit(self, kind: str, *, ok: bool) -> None:
        self._edits.labels(kind, str(ok).lower()).inc()

    def saved(self, seconds: float, *, ok: bool) -> None:
        self._saves.labels(str(ok).lower()).inc()
        self._save_s.observe(seconds)

    def journalled(self, changes: int, seconds: float, *, ok: bool) -> None:
        self._journalled.labels(str(ok).lower()).inc(changes)
        self._journal_s.observe(seconds)

    def retrieval(self, seconds: float) -> None:
        self._retrieval_s.observe(seconds)

    def watch_embedding(self, queue: EmbeddingQueue) -> None:
        """Count what a queue embeds, and what waits in it."""
        queue.on_batch = self._embedding_batch
        self._embedding_pending.set_function(queue.pending)
        self._embedding_given_up.set_function(lambda: queue.given_up)

    def _embedding_batch(self, report: EmbedReport) -> None:
        self._embedded.labels("embedded").inc(report.embedded)
        self._embedded.labels("failed").inc(report.failed)

    def text(self) -> bytes:
        """Return all of it as Prometheus reads it."""
        return generate_latest(self.registry)
