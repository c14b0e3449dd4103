"""Sends the morning view of each workspace once a day, as a webhook and as mail.

Both hold names, keys and numbers, and nothing of a graph. Decision: a message has a key of its
workspace and date, and a stored key is never stored again; so it is told once although several
servers send, and also if none ran at its time: the next one sends it on the same day.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Final, final

from datasources.errors import SourceError
from graphrag.app.today import Today, TodayPlace, today
from graphrag.automations.last_seen import DAY_MS
from graphrag.config import Settings
from graphrag.i18n import Language, text
from graphrag.leases import now_ms
from graphrag.page_address import page_address
from graphrag.roles import Person
from graphrag.sessions.schedules import zone_of
from server.mail import Mailer
from server.webhook_target import page_url
from server.webhooks import Webhooks

log = logging.getLogger(__name__)

LOOK_S: Final = 30.0
MAX_ROWS: Final = 200
READER: Final = "digest"


@final
class Digests:
    """`workspaces` returns the names of those with automations, `place` one as a person reads it.
    `clock`: milliseconds since 1970.
    """

    def __init__(
        self,
        settings: Settings,
        webhooks: Webhooks,
        mailer: Mailer,
        *,
        workspaces: Callable[[], Awaitable[Sequence[str]]],
        place: Callable[[Person], Awaitable[TodayPlace]],
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._at = settings.notify.digest_at
        self._zone = zone_of(settings.timezone)
        self._language: Language = settings.language
        self._page_url = page_url(settings)
        self._webhooks = webhooks
        self._mailer = mailer
        self._workspaces = workspaces
        self._place = place
        self._clock = clock
        self._told = set[tuple[str, str]]()

    async def look(self) -> int:
        """Sends what is due and not sent. Returns the number of digests. Raises: SourceError."""
        now = datetime.fromtimestamp(self._clock() / 1000, self._zone)
        if not (self._webhooks.is_enabled or self._mailer.is_enabled):
            return 0
        if self._at is None or now.strftime("%H:%M") < self._at:
            return 0
        date = now.date().isoformat()
        due = [name for name in await self._workspaces() if (name, date) not in self._told]
        for name in due:
            try:
                await self._send(name, date)
            except SourceError as exc:  # the next look sends it
                log.warning("digest_not_sent", extra={"error": type(exc).__name__})
                continue
            self._told = {one for one in self._told if one[1] == date} | {(name, date)}
        return len(due)

    async def _send(self, workspace: str, date: str) -> None:
        place = await self._place(Person(READER, "reviewer", workspace))
        now = self._clock()
        seen = await today(
            [place], since=now - DAY_MS, now=now, language=self._language, limit=MAX_ROWS
        )
        facts = digest_facts(seen, date)
        await self._webhooks.digest(workspace, facts)
        subject = text("digest_subject", self._language, workspace=workspace, date=date)
        body = digest_text(seen, self._language, self._page_url)
        await self._mailer.send(f"digest_{workspace}_{date}", subject, body)


def digest_facts(seen: Today, date: str) -> dict[str, Any]:
    """Returns the facts of a digest: numbers, names of automations, keys and addresses."""
    waiting = Counter(row.graph_key for row in seen.proposals)
    costs = [row.cost_usd for row in seen.costs]
    return {
        "date": date,
        "since": seen.since,
        "findings": [
            {
                "automation": {"id": row.automation_id, "name": row.name},
                **{kind: row.counts[kind] for kind in ("new", "same", "gone")},
                "sessionId": row.session_id,
                "address": row.address,
            }
            for row in seen.findings
        ],
        "waiting": [
            {"graphKey": key, "count": count, "address": page_address(key, panel="review")}
            for key, count in waiting.most_common()
        ],
        "runs": [
            {
                "automation": {"id": row.automation_id, "name": row.name},
                "state": row.state,
                "reason": row.reason,
                "address": row.address,
                **({"sessionId": row.session_id} if row.session_id else {}),
            }
            for row in seen.runs
        ],
        "decisions": len(seen.decisions) + seen.more.get("decisions", 0),
        "costUsd": None if None in costs else sum(cost or 0.0 for cost in costs),
        "tokens": sum(row.tokens for row in seen.costs),
        "more": {str(part): count for part, count in seen.more.items()},
    }


def digest_text(seen: Today, language: Language, url: str) -> str:
    """Returns a digest as the text of a mail: a line and an address for each thing."""
    facts = digest_facts(seen, "")
    lines = list[str]()

    def part(heading: str, rows: Sequence[tuple[str, str]], more: int = 0) -> None:
        if rows:
            lines.extend(["", text(heading, language)])
            lines.extend(f"- {said}\n  {url}/{address}" for said, address in rows)
        if more:
            lines.append(text("digest_more", language, count=more))

    part(
        "digest_runs",
        [
            (f"{row['automation']['name']}: {row['state']}, {row['reason']}", row["address"])
            for row in facts["runs"]
        ],
        facts["more"].get("runs", 0),
    )
    part(
        "digest_waiting",
        [(f"{r['graphKey']}: {r['count']}", r["address"]) for r in facts["waiting"]],
    )
    part(
        "digest_findings",
        [
            (
                f"{row['automation']['name']}: "
                + text(
                    "digest_counts", language, new=row["new"], same=row["same"], gone=row["gone"]
                ),
                row["address"],
            )
            for row in facts["findings"]
        ],
        facts["more"].get("findings", 0),
    )
    used = "?" if facts["costUsd"] is None else f"{facts['costUsd']:.2f}"
    sums = {"decisions": facts["decisions"], "tokens": facts["tokens"], "cost": used}
    lines += [
        "",
        text("digest_sums", language, **sums),
        f"{url}/{page_address(None, panel='today')}",
    ]
    return "\n".join(lines).strip() + "\n"
