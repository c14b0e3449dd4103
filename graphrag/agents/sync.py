"""Synchronises agents with a list: applies changes, starts new agents, drains removed ones.

Decision: doubtful lists change nothing. A list that fails, is empty or lost more than half stops no
agent. A broken item leaves its own agent as it is; one without an id keeps all agents that seem to
be removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from datasources.errors import RecordConflict, SourceError
from graphrag.agents.agent_list import AgentList, BrokenItem, WantedAgent, read_list
from graphrag.agents.agent_store import MAX_AGENTS, StoredAgent
from graphrag.agents.errors import AgentError, AgentListRefused, InvalidAgent
from graphrag.leases import Lease, new_owner
from graphrag.roles import Person
from graphrag.stored_records import change_record
from graphrag.workers import end_tasks
from tools.http.fetch import RequestFailed
from tools.http.scope import ConversationValues

if TYPE_CHECKING:
    from graphrag.agents.manager import AgentManager

log = logging.getLogger(__name__)

KIND: Final = "agent_list"
EVERY_MS: Final = 300_000
HELD_MS: Final = 60_000
MAX_BROKEN: Final = 100
SYNC_USER: Final = "agents-sync"


@final
@dataclass(slots=True, kw_only=True)
class SyncReport:
    """What a round did. `broken`: {id, what}; `error`: why nothing was changed.
    `time`: ms since 1970.
    """

    source: str
    time: int
    dry_run: bool = False
    listed: int = 0
    created: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    started: list[str] = field(default_factory=list[str])
    stopped: list[str] = field(default_factory=list[str])
    kept: list[str] = field(default_factory=list[str])
    """Removed from the list, but left as they are."""
    unchanged: int = 0
    broken: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    broken_total: int = 0
    error: str | None = None

    @property
    def outcome(self) -> str:
        """`refused` if nothing was changed, `broken` if items make no agent, else `ok`."""
        if self.error is not None:
            return "refused"
        return "broken" if self.broken_total else "ok"

    def to_document(self) -> dict[str, Any]:
        """Returns the stored form of the round, which clients get, too."""
        found = asdict(self)
        return {"dryRun": found.pop("dry_run"), "brokenTotal": found.pop("broken_total"), **found}


@final
class AgentLists:
    """Synchronises the agents of a workspace with lists; a lease keeps servers apart.

    `on_synced` gets the outcome of each round.
    """

    def __init__(
        self,
        manager: AgentManager,
        *,
        files: Sequence[str] = (),
        on_synced: Callable[[str], None] | None = None,
    ) -> None:
        self._manager = manager
        self._agents = manager.agents
        self._records = manager.agents.records
        self._clock = manager.agents.clock
        self._person = Person(SYNC_USER, "admin", manager.agents.workspace)
        self._files = [Path(file) for file in files]
        self._on_synced = on_synced
        self._owner = new_owner()
        self.round: asyncio.Task[None] | None = None
        """The round that a tick began."""

    async def reports(self) -> list[dict[str, Any]]:
        """Returns the report of the last round of each list."""
        return [dict(record.data) for record in await self._records.query(KIND)]

    async def run(
        self, file: Path, *, dry_run: bool = False, allow_shrink: bool = False
    ) -> SyncReport:
        """Does one round. A problem of the whole list is the report's `error`.

        Raises: AgentListRefused for an invalid file, or while another server does a round.
        """
        source = await asyncio.to_thread(read_list, file)
        if dry_run:
            return await self._round(source, None, allow_shrink=allow_shrink)
        lease = Lease(
            self._records,
            f"agents-sync/{source.name}",
            self._owner,
            refused=lambda: AgentListRefused(source=source.name, reason="another server is at it"),
            facts={},
            clock=self._clock,
            held_ms=HELD_MS,
        )
        try:
            await lease.hold()
        except RecordConflict as exc:
            raise AgentListRefused(source=source.name, reason="another server is at it") from exc
        try:
            report = await self._round(source, lease, allow_shrink=allow_shrink)
            await self._store(report)
            if self._on_synced is not None:
                self._on_synced(report.outcome)
        finally:
            await lease.give_back()
        return report

    async def _round(
        self, source: AgentList, lease: Lease | None, *, allow_shrink: bool
    ) -> SyncReport:
        report = SyncReport(source=source.name, time=self._clock(), dry_run=lease is None)
        agents = {stored.agent_id: stored for stored in await self._agents.list()}
        own = [stored for stored in agents.values() if stored.source == source.name]
        try:
            items = source.items_of(await self._fetched(source))
            report.listed = len(items)
            found = await asyncio.to_thread(source.wanted, items)
            _check_size(source.name, found, own, agents, allow_shrink=allow_shrink)
        except AgentListRefused as exc:
            report.error = exc.reason
            log.warning(
                "agents_list_refused", extra={"source": source.name, "reason": exc.reason[:200]}
            )
            return report
        for each in found:
            await self._held(lease)
            if isinstance(each, BrokenItem):
                _note_broken(report, each.agent_id, each.what)
            else:
                await self._take(each, agents.get(each.agent_id), source, report)
        is_certain = all(each.agent_id for each in found)
        wanted = {each.agent_id for each in found}
        for stored in own:
            if stored.agent_id in wanted or stored.desired == "stopped":
                continue
            if source.file.on_missing == "keep" or not is_certain:
                report.kept.append(stored.agent_id)
                continue
            await self._held(lease)
            report.stopped.append(stored.agent_id)
            if not report.dry_run:
                await self._manager.stop(stored.agent_id, by_list=True)
        return report

    async def _take(
        self, wanted: WantedAgent, stored: StoredAgent | None, source: AgentList, report: SyncReport
    ) -> None:
        """Applies one agent of the list. Its problems are reported and affect no other agent."""
        is_new = stored is None
        agent_id = wanted.agent_id
        if stored is not None and stored.source != source.name:
            _note_broken(report, agent_id, "an agent of this id is there, but is not of this list")
            return
        is_same = stored is not None and stored.current.fingerprint == wanted.fingerprint
        starts = stored is None or (stored.desired == "stopped" and stored.stopped_by_list)
        if is_same and not starts:
            report.unchanged += 1
            return
        try:
            if report.dry_run:
                await self._check(wanted)
            elif not is_same:
                await self._manager.apply(
                    wanted.document,
                    self._person,
                    variables=wanted.variables,
                    expected_version=0 if stored is None else stored.version,
                    list_name=source.name,
                )
            (
                report.created if is_new else report.changed if not is_same else report.started
            ).append(agent_id)
            if starts and not report.dry_run:
                await self._manager.start(agent_id)
        except AgentError as exc:
            _note_broken(report, agent_id, str(exc))
        except SourceError:
            raise
        except Exception as exc:  # one agent's trouble is not another's
            log.exception("agent_not_synced", extra={"agent_id": agent_id})
            _note_broken(report, agent_id, type(exc).__name__)

    async def _check(self, wanted: WantedAgent) -> None:
        checked = await self._manager.check(wanted.document, wanted.variables)
        if checked.errors:
            raise InvalidAgent(errors=checked.errors)

    async def _fetched(self, source: AgentList) -> Any:
        """Returns the response with the list. Raises: AgentListRefused."""
        executor = self._manager.executor(f"list:{source.name}")
        values = ConversationValues(
            agent={},
            base_url=None,
            channel="sync",
            caller_phone=None,
            call_id=f"sync:{source.name}",
            timezone="UTC",
            language="en",
            started_time=self._clock(),
        )
        try:
            answer = await executor.request(
                source.file.list, values, f"sync:{source.name}:{self._clock()}"
            )
        except RequestFailed as exc:
            raise AgentListRefused(source=source.name, reason=f"fetching it failed: {exc}") from exc
        if not answer.ok:
            raise AgentListRefused(
                source=source.name, reason=f"fetching it failed: HTTP {answer.status}"
            )
        return answer.value

    @staticmethod
    async def _held(lease: Lease | None) -> None:
        """Checks that no other server does a round. Raises: AgentListRefused, RecordConflict."""
        await asyncio.sleep(0)
        if lease is not None and lease.is_due:
            await lease.hold()

    async def _store(self, report: SyncReport) -> None:
        with suppress(RecordConflict):
            await change_record(
                self._records, KIND, report.source, lambda _: report.to_document(), tries=1
            )

    # -- by the service

    def tick(self, now: int) -> None:
        """Starts a round of the settings' lists if one is due."""
        if self._files and (self.round is None or self.round.done()):
            self.round = asyncio.create_task(self._due(now))

    async def _due(self, now: int) -> None:
        times = {
            str(report.get("source")): int(report.get("time", 0)) for report in await self.reports()
        }
        for file in self._files:
            if now - times.get(file.name, 0) < EVERY_MS:
                continue
            try:
                await self.run(file)
            except (AgentListRefused, SourceError, RecordConflict) as exc:
                facts = {"source": file.name, "reason": str(getattr(exc, "reason", exc))[:200]}
                log.warning("agents_list_refused", extra=facts)
            except Exception:
                log.exception("agents_sync_failed", extra={"source": file.name})

    async def aclose(self) -> None:
        """Cancels the round under way. Its changes stay."""
        await end_tasks(self.round)


def _check_size(
    source: str,
    found: Sequence[WantedAgent | BrokenItem],
    own: Sequence[StoredAgent],
    agents: Mapping[str, StoredAgent],
    *,
    allow_shrink: bool,
) -> None:
    """Raises: AgentListRefused for a list with far fewer agents than exist, or too many."""
    running = sum(stored.desired == "running" for stored in own)
    if len(found) * 2 < running and not allow_shrink:
        reason = f"it asks for {len(found)} agents where {running} run: --allow-shrink lets it"
        raise AgentListRefused(source=source, reason=reason)
    if len({*agents, *(each.agent_id for each in found)}) > MAX_AGENTS:
        raise AgentListRefused(source=source, reason=f"the workspace may have {MAX_AGENTS} agents")


def _note_broken(report: SyncReport, agent_id: str, what: str) -> None:
    report.broken_total += 1
    if len(report.broken) < MAX_BROKEN:
        report.broken.append({"id": agent_id[:80], "what": what[:500]})
