"""Reports occurrences of automations that did not begin in time, each once.

Decision: a report is stored by its listener before the automation notes it. A server that is killed
in between reports again, and the listener recognizes the occurrence; only the server whose note is
stored counts it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from datasources.base import Record
from graphrag.automations.automation_store import Automations, read_all
from graphrag.automations.run_listeners import RunListeners

log = logging.getLogger(__name__)

# After this time an occurrence that has not begun is late, and a server that does not tick stopped.
LATE_MS: Final = 180_000


async def report_late(
    automations: Automations,
    listeners: RunListeners,
    due: Sequence[Record],
    now: int,
    spread_ms: Callable[[str], int],
) -> int:
    """Reports the due occurrences that are late and were not reported. Returns their number.

    `due`: records of automations. `spread_ms`: how long an automation waits after its time.
    """
    reported = 0
    for record in due:
        time = record.data.get("nextTime") or 0
        is_reported = time in record.data.get("lateTimes", ())
        if is_reported or now - time - spread_ms(record.key) < LATE_MS:
            continue
        for automation in read_all([record]):
            if not await listeners.late(automation, time):
                log.warning("late_not_reported", extra={"automation_id": record.key})
                continue
            if await automations.put(automation.with_late(time)):
                listeners.late_noted(automation)
            reported += 1
    return reported
