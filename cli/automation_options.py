"""The options of `automations add` and `edit`: the task, its schedule, and how it is run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from cli.common import usage_error
from cli.options import OptionGroup, flag, option
from cli.usual_schedules import FORMS, cron_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomationOptions(OptionGroup):
    """The task of an automation and its schedule."""

    message: Annotated[str | None, option("--message -m", "TEXT", "The task.")] = None
    cron: Annotated[
        str | None, option("--cron", "CRON", "Schedule in five fields, such as '0 2 * * 1-5'.")
    ] = None
    every: Annotated[
        str | None,
        option("--every", "WORDS", f"Schedule in words instead: {FORMS}."),
    ] = None
    at: Annotated[
        list[str] | None,
        option("--at", "TIME", "A date to run at instead (ISO 8601); may be repeated."),
    ] = None
    event: Annotated[
        str | None, option("--event", "NAME", "Run at this event (see `nodius event`).")
    ] = None
    timezone: Annotated[
        str | None, option("--timezone", "ZONE", "Time zone of the schedule, such as Europe/Paris.")
    ] = None
    mode: Annotated[
        str | None, option("--mode", "MODE", "report, or propose (may propose changes).")
    ] = None
    use: Annotated[
        list[str] | None, option("--use", "NODE", "A node that the task is about; may be repeated.")
    ] = None
    since: Annotated[
        str | None,
        option("--since", "PERIOD", "Add the history of these nodes since then, such as -1_DAY."),
    ] = None

    def fields(self, name: str | None) -> dict[str, Any]:
        """Returns the fields of an automation that were given as options."""
        period = {} if self.since is None else {"period": {"from": self.since, "to": "NOW"}}
        blocks = [
            {"id": f"b{i}", "type": "USE", "target": {"kind": "node", "key": key}, **period}
            for i, key in enumerate(self.use or (), 1)
        ]
        given = {
            "name": name,
            "message": self.message,
            "cron": self.cron if self.every is None else self._cron_of(self.every),
            "dates": [_instant(each) for each in self.at] if self.at else None,
            "event": self.event,
            "timezone": self.timezone,
            "mode": self.mode,
            "blocks": blocks or None,
        }
        return {field: value for field, value in given.items() if value is not None}

    def _cron_of(self, every: str) -> str:
        if self.cron is not None:
            usage_error("give --every or --cron, not both")
        try:
            return cron_of(every)
        except ValueError as exc:
            usage_error(f"--every {exc}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(OptionGroup):
    """How the runs of an automation are begun and decided, and their limits."""

    only_if_changed: Annotated[
        bool | None,
        flag(
            "--only-if-changed/--always", "Skip a run if the graph has not changed since the last."
        ),
    ] = None
    overlap: Annotated[
        str | None,
        option("--overlap", "HOW", "While a run is open: supersede it, or skip the new one."),
    ] = None
    missed: Annotated[
        str | None,
        option("--missed", "HOW", "Times that nothing ran at: run the last, skip, or run all."),
    ] = None
    catch_up: Annotated[
        int | None, option("--catch-up", "SECONDS", "How late a missed time may still be run.")
    ] = None
    require_validation: Annotated[
        bool | None,
        flag(
            "--require-validation/--by-policy",
            "A person decides every proposal, or the workspace's policy decides who must.",
        ),
    ] = None
    proposals_expire: Annotated[
        int | None,
        option("--proposals-expire", "SECONDS", "How long its proposals wait for a decision."),
    ] = None
    report_lang: Annotated[
        str | None, option("--report-lang", "en|fr", "Language of its reports.")
    ] = None
    run_provider: Annotated[
        str | None,
        option("--run-provider", "NAME", "Provider of the model of its runs, if another."),
    ] = None
    run_model: Annotated[
        str | None, option("--run-model", "NAME", "Model of its runs, if another.")
    ] = None
    day_start: Annotated[
        int | None, option("--day-start", "HOUR", "First hour of a day, for periods of the task.")
    ] = None
    first_day: Annotated[
        str | None, option("--first-day", "DAY", "First day of a week: monday, sunday, saturday.")
    ] = None
    max_calls: Annotated[
        int | None, option("--max-calls", "N", "Maximum calls of the model in one run.")
    ] = None
    max_tokens: Annotated[int | None, option("--max-tokens", "N", "Maximum tokens of one run.")] = (
        None
    )
    max_cost: Annotated[float | None, option("--max-cost", "USD", "Maximum cost of one run.")] = (
        None
    )
    max_active: Annotated[
        int | None,
        option("--max-active", "SECONDS", "How long a run may work; waiting does not count."),
    ] = None
    day_runs: Annotated[int | None, option("--day-runs", "N", "Maximum runs of one day.")] = None
    day_cost: Annotated[
        float | None, option("--day-cost", "USD", "Maximum cost of one day's runs.")
    ] = None

    def fields(self) -> dict[str, Any]:
        """Returns the fields of an automation that were given as options."""
        limits = {
            "modelCalls": self.max_calls,
            "tokens": self.max_tokens,
            "costUsd": self.max_cost,
            "activeS": self.max_active,
            "dayRuns": self.day_runs,
            "dayCostUsd": self.day_cost,
        }
        given = {
            "onlyIfChanged": self.only_if_changed,
            "overlap": self.overlap,
            "missed": self.missed,
            "catchUpS": self.catch_up,
            "requireValidation": self.require_validation,
            "proposalTtlS": self.proposals_expire,
            "language": self.report_lang,
            "provider": self.run_provider,
            "model": self.run_model,
            "dayStartHour": self.day_start,
            "firstDay": self.first_day,
            "budget": {name: limit for name, limit in limits.items() if limit is not None} or None,
        }
        return {field: value for field, value in given.items() if value is not None}


def _instant(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        usage_error(f"--at {text!r}: write a time as 2026-11-23T02:00+01:00")
    return round((at if at.tzinfo else at.astimezone()).astimezone(UTC).timestamp() * 1000)
