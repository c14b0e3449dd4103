"""Metrics of the server for Prometheus. No label names a person, a workspace or a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar, final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from datasources.base import Database, Measured
from datasources.notices import StoreNotice
from graphrag.agent.events import (
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
from graphrag.live import LiveWatch
from graphrag.llm.usage_meter import CallUsage
from graphrag.voice.call_metrics import CALL_COUNTS, CALL_SECONDS

T = TypeVar("T")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_CALL_SECONDS = (0.0005, 0.001, 0.002, *_SECONDS, 600, 900, 1800)
_METHODS = ("GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS")
MAX_AGENT_TOOLS, MAX_AGENTS = 200, 200
MAX_VOICE_CODES, MAX_CODE_CHARS = 50, 60

# Their names begin with `nodius_`, those of times end with `_seconds`. After the meaning
# come the labels.
COUNTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "http_requests": ("Requests answered", "method", "route", "status"),
    "model_calls": ("Calls of models and embedders", "kind", "provider"),
    "model_tokens": ("Tokens of models", "provider", "model", "direction"),
    "model_cost_dollars": ("Known cost of models", "provider"),
    "tool_calls": ("Calls of tools by models", "tool", "error"),
    "tool_refused": ("Calls of tools that were not run, by why", "why"),
    "turns": ("Turns by how they ended", "ending"),
    "sessions": ("Runs of automations that ended", "kind", "reason"),
    "occurrences": ("Times of automations by what became of them", "result"),
    "occurrences_late": ("Times of automations that did not begin within three minutes",),
    "deliveries": ("Attempts to send what APIs of agents are owed", "status"),
    "agent_lists": ("Rounds of lists of agents by what became of them", "outcome"),
    "approval_decisions": ("Decisions by what became of them", "status"),
    "proposals": ("Proposals that wait for people",),
    "live_edits": ("Messages of live editing", "kind", "ok"),
    "live_saves": ("Saves of live graphs", "ok"),
    "live_journalled": ("Changes of live graphs by whether they were kept", "ok"),
    "embedded_nodes": ("Nodes embedded in the background", "outcome"),
    "notices": ("Changes that the database told", "kind"),
    "notices_lost": ("Times that the connection for notices was lost",),
    "event_loop_late": ("Times that the event loop was late by more than 250 ms",),
    "voice_errors": ("What went wrong in calls", "code", "agent"),
    **{name: (meaning, "agent") for name, meaning in CALL_COUNTS.items()},
}
GAUGES: Final[Mapping[str, tuple[str, ...]]] = {
    "notices_connected": ("1 while the database tells changes, 0 while they are only polled",),
    "turns_running": ("Turns under way",),
    "automations_due": ("Automations that were due at the last look and did not begin",),
    "embedding_pending": ("Nodes that wait to be embedded",),
    "embedding_given_up": ("Nodes left to embed-nodes after failing too often",),
    "voice_calls": ("Calls that are open here", "agent", "state"),
}
TIMES: Final[Mapping[str, tuple[str, ...]]] = {
    "http_request": ("Time of a request", "route"),
    "tool": ("Time of a tool, without what was refused or remembered", "tool"),
    "turn": ("Time of a turn until it ends or waits",),
    "session_start_delay": ("From the time of a run to its start",),
    "agent_tool": ("Time of a tool of an agent", "agent", "tool", "ok"),
    "live_save": ("Time of a save of a live graph",),
    "live_journal": ("Time of a write to the journal",),
    "retrieval": ("Time of a retrieval, also of a remembered one",),
    **{name.removesuffix("_seconds"): (meaning, "agent") for name, meaning in CALL_SECONDS.items()},
}
_ENDINGS: Final = {Completed: "answer", ToolLimit: "tool_limit", QuestionAsked: "question"}


class Metrics(LiveWatch):
    """The counters of one server, in a registry of its own.

    Watches live graphs and calls, and listens to notices.
    """

    def __init__(self, known_tools: frozenset[str] = frozenset()) -> None:
        """`known_tools`: tools with a label of their own; others are counted as `other`."""
        self._known_tools = known_tools
        self.registry = made = CollectorRegistry()
        self._counters = {
            n: Counter(f"nodius_{n}", m, ls, registry=made) for n, (m, *ls) in COUNTERS.items()
        }
        self._gauges = {
            n: Gauge(f"nodius_{n}", m, ls, registry=made) for n, (m, *ls) in GAUGES.items()
        }
        self._times = {name: self._histogram(name) for name in TIMES}
        self._agent_tools: set[tuple[str, str]] = set()
        self._voice_codes: set[str] = set()
        self._voice_agents: set[str] = set()
        self._voice_open: dict[str, tuple[str, str]] = {}

    def _histogram(self, name: str) -> Histogram:
        meaning, *labels = TIMES[name]
        buckets = _CALL_SECONDS if f"{name}_seconds" in CALL_SECONDS else _SECONDS
        return Histogram(
            f"nodius_{name}_seconds", meaning, labels, buckets=buckets, registry=self.registry
        )

    def count(self, name: str, *labels: str | bool, by: float = 1) -> None:
        """Adds to a counter of COUNTERS."""
        counter = self._counters[name]
        (counter.labels(*map(_label, labels)) if labels else counter).inc(by)

    def observe(self, name: str, seconds: float, *labels: str | bool) -> None:
        """Adds a time to one of TIMES."""
        histogram = self._times[name]
        (histogram.labels(*map(_label, labels)) if labels else histogram).observe(seconds)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self.count("http_requests", method if method in _METHODS else "other", route, str(status))
        self.observe("http_request", seconds, route)

    def model_call(self, call: CallUsage) -> None:
        self.count("model_calls", call.kind, call.provider)
        for direction in ("prompt", "completion", "cached"):
            tokens = max(0, getattr(call.tokens, direction))
            self.count("model_tokens", call.provider, call.model, direction, by=tokens)
        if call.cost_usd:
            self.count("model_cost_dollars", call.provider, by=max(0.0, call.cost_usd))

    def turn_began(self) -> None:
        self._gauges["turns_running"].inc()

    def turn_ended(self, seconds: float) -> None:
        self._gauges["turns_running"].dec()
        self.observe("turn", seconds)

    def event(self, event: Event) -> None:
        """Counts an event of a turn."""
        match event:
            case ToolFinished():
                self.count("tool_calls", self._tool_label(event.name), event.is_error)
            case ProposalPending():
                self.count("proposals", by=len(event.approvals))
                self.count("turns", "proposal")
            case Failed():
                self.count("turns", event.fault.code)
            case Completed() | ToolLimit() | QuestionAsked():
                self.count("turns", _ENDINGS[type(event)])
            case _:
                pass

    def tool_call(self, call: CallRecord) -> None:
        """Counts the time of a tool call, or why it was not run."""
        if call.refused is not None:
            self.count("tool_refused", call.refused)
        elif call.outcome != "reused":
            self.observe("tool", call.ms / 1000, self._tool_label(call.tool))

    def _tool_label(self, name: str) -> str:
        """Returns a tool's label; a name that a model invented is `other`."""
        return name if name in self._known_tools else "other"

    def agent_tool(self, agent: str, tool: str, seconds: float, ok: bool) -> None:
        """Counts a tool call of an agent; the first MAX_AGENT_TOOLS tools have their own labels."""
        if not _is_known(self._agent_tools, (agent, tool), MAX_AGENT_TOOLS):
            agent = tool = "other"
        self.observe("agent_tool", seconds, agent, tool, ok)

    def counted(self, name: str, value: float = 1.0, *, code: str = "", agent_id: str = "") -> None:
        """Counts or measures a value of a call (a `CallMetrics`)."""
        agent = self._agent_label(agent_id)
        if name == "voice_errors":  # a model's server has codes of its own
            known = (
                _is_known(self._voice_codes, code, MAX_VOICE_CODES) and len(code) <= MAX_CODE_CHARS
            )
            self.count(name, (known and code) or "other", agent, by=value)
        elif name in CALL_COUNTS:
            self.count(name, agent, by=value)
        elif name in CALL_SECONDS:
            self.observe(name.removesuffix("_seconds"), value, agent)

    def _agent_label(self, agent_id: str) -> str:
        """Returns the label of an agent: the first MAX_AGENTS agents have their own."""
        if not agent_id:
            return ""
        return agent_id if _is_known(self._voice_agents, agent_id, MAX_AGENTS) else "other"

    def state(self, call_id: str, agent_id: str, status: str | None) -> None:
        """Counts a call under its status; the first MAX_AGENTS agents have their own labels."""
        agent = self._agent_label(agent_id)
        before = self._voice_open.pop(call_id, None)
        if before is not None:
            self._gauges["voice_calls"].labels(*before).dec()
        if status is not None:
            self._voice_open[call_id] = (agent, status)
            self._gauges["voice_calls"].labels(agent, status).inc()

    def decided(self, approval: Approval) -> None:
        """Counts a decision made in this server; an undo is `undone`."""
        self.count("approval_decisions", "undone" if approval.undoes else approval.status)

    def run_left(self, thread: Thread) -> None:
        """Counts a run that ended."""
        session = thread.session
        if session is None or session.end_reason is None or session.ended_time is None:
            return
        self.count("sessions", session.kind.value, session.end_reason.value)
        if session.started_time is not None:
            delay_ms = max(0, session.started_time - session.scheduled_time)
            self.observe("session_start_delay", delay_ms / 1000)

    def saved(self, seconds: float, *, ok: bool) -> None:
        self.count("live_saves", ok)
        self.observe("live_save", seconds)

    def journalled(self, changes: int, seconds: float, *, ok: bool) -> None:
        self.count("live_journalled", ok, by=changes)
        self.observe("live_journal", seconds)

    def notice_told(self, notice: StoreNotice) -> None:
        self.count("notices", notice.kind)

    def notices_connected(self, is_connected: bool) -> None:
        self._gauges["notices_connected"].set(is_connected)
        if not is_connected:
            self.count("notices_lost")

    def watch_database(self, database: Database) -> None:
        """Shows the figures of a database that counts its work."""
        if isinstance(database, Measured):
            self.registry.register(_DatabaseFigures(database))

    def watch_embedding(self, queue: EmbeddingQueue) -> None:
        """Shows the number of nodes that wait in a queue, and of those that failed too often."""
        self._gauges["embedding_pending"].set_function(queue.pending)
        self._gauges["embedding_given_up"].set_function(lambda: queue.given_up)

    def watch_automations(self, due: Callable[[], int]) -> None:
        """Shows the number of automations that are due and have not begun."""
        self._gauges["automations_due"].set_function(due)

    def batch_embedded(self, report: EmbedReport) -> None:
        self.count("embedded_nodes", "embedded", by=report.embedded)
        self.count("embedded_nodes", "failed", by=report.failed)

    def text(self) -> bytes:
        """Returns all metrics in the format of Prometheus."""
        return generate_latest(self.registry)


@final
@dataclass(frozen=True, slots=True)
class _DatabaseFigures:
    """Reads the figures of a database at each scrape."""

    database: Measured

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        for figure in self.database.figures():
            kind = CounterMetricFamily if figure.is_total else GaugeMetricFamily
            labels = () if figure.label is None else (figure.label,)
            family = kind(f"nodius_database_{figure.name}", figure.meaning, labels=labels)
            for label, value in figure.values.items():
                family.add_metric([label] if labels else [], value)
            yield family


def _label(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else value


def _is_known(known: set[T], value: T, most: int) -> bool:
    """Adds a value to a set of limited size. Returns True if the set has it."""
    if len(known) < most:
        known.add(value)
    return value in known
