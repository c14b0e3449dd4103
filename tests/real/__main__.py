"""Makes the checks with the keys of the environment: `python -m tests.real`. Ends with 1
when one failed.
"""

from __future__ import annotations

import asyncio

from graphrag.config import Settings, load_settings
from tests.real.checks import run_checks


async def report(settings: Settings) -> int:
    """Print what comes of each check; return the exit code."""
    statuses: set[str] = set()
    async for outcome in run_checks(settings):
        statuses.add(outcome.status)
        name = f"{outcome.service} {outcome.check}".strip()
        print(f"{outcome.status:<8}{name}: {outcome.detail}", flush=True)
    if statuses == {"skipped"}:
        print("Nothing was checked: no key and no address of a service is set.")
    return int("failed" in statuses)


if __name__ == "__main__":
    raise SystemExit(asyncio.run(report(load_settings())))
