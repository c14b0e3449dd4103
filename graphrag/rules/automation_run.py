"""Executes the tasks of an automation's message: calls their tools, proposes repairs, ends with a
report.

A task is recognized by the name of its tool in the message, or by its words in a language file. The
same message works with a model.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from datasources.text import fold
from graphrag.i18n import LANGUAGES
from graphrag.rules.conversation import RuleCall
from graphrag.rules.markup import bullets, cite, plain
from graphrag.rules.patterns import grammar
from graphrag.rules.turn_state import (
    MAX_CALLS,
    NOT_STORED,
    RulesStep,
    RulesTurn,
    call,
    outcome_in_short,
    run,
)
from tools.answer_tables import Row, ToolTables, cell

FINISH = "finish_automation"
MAX_REPORT = 4_000
MAX_ROUNDS = 15
SHOWN = 20
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
_MORE = re.compile(r"(?P<count>\d+) more: offset=")


def task_step(turn: RulesTurn) -> RulesStep | None:
    """Returns the next step for a message that names tasks, or None: then it is answered as a
    question.

    In a conversation the report is the answer, and nothing is proposed.
    """
    tasks = [task for name, task in TASKS.items() if name in turn.offered and _is_asked(turn, name)]
    if not tasks:
        return None
    turn.max_rounds = MAX_ROUNDS
    outcome = "failed"

    def report(turn: RulesTurn) -> str:
        nonlocal outcome
        text = "\n\n".join(task(turn) for task in tasks)
        outcome = "findings" if turn.has_findings else "ok"
        return text

    step = run(report, [turn])
    return step if step.calls or FINISH not in turn.offered else finished(step.text, outcome)


def finished(report: str, outcome: str) -> RulesStep:
    """Returns the step that ends a run."""
    text = report if len(report) <= MAX_REPORT else f"{report[: MAX_REPORT - 2].rstrip()}\n…"
    return RulesStep(calls=(call(FINISH, outcome=outcome, report=text or "-"),))


def _is_asked(turn: RulesTurn, name: str) -> bool:
    folded = fold(turn.conversation.question)
    return any(grammar(language).word(f"task_{name}").search(folded) for language in LANGUAGES)


# Each task returns its part of the report, and sets `turn.has_findings` if people should read it.


def _check(turn: RulesTurn) -> str:
    """Proposes each repair that the check of the graph offers, and reports the other findings."""
    answer = turn.read("check_graph")
    rows = answer.rows("findings")
    if not rows:
        return turn.say("run_nothing_found")
    turn.has_findings = True
    proposes_repairs = FINISH in turn.offered and _is_asked(turn, "repairs")
    repairs = {
        cell(row.get("repair")): repair
        for row in reversed(rows)
        if proposes_repairs and (repair := _repair(turn, row))
    }
    answers = _proposed(turn, [*reversed(repairs.values())])
    proposed = [(row, answers[repair.signature]) for row in rows
             if (repair := repairs.get(cell(row.get("repair")))) and repair.signature in answers]  # fmt: skip
    lines = [
        f"{plain(cell(row.get('what')), 200)} {outcome_in_short(turn, answer)}"
        for row, answer in proposed
    ]
    rest = [row for row in rows if not any(row is other for other, _ in proposed)]
    remaining = [
        f"{plain(cell(row.get('what')), 200)} ({cell(row.get('severity'))})" for row in rest[:SHOWN]
    ]
    if FINISH not in turn.offered:  # reports of runs contain no links
        remaining = [line + _links(row) for line, row in zip(remaining, rest, strict=False)]
    counts = Counter(cell(row.get("severity")) for row in rows)
    parts = [
        turn.say(
            "run_findings", count=len(rows), errors=counts["error"], warnings=counts["warning"]
        )
    ]
    parts += [turn.say("run_repairs"), bullets(lines)] if lines else []
    parts += [turn.say("run_left"), bullets(remaining)] if remaining else []
    not_read = sum(int(match["count"]) for note in answer.notes if (match := _MORE.match(note)))
    more = len(rest) - len(remaining) + not_read
    return "\n".join([*parts, *([turn.say("run_more", count=more)] if more else [])])


def _links(row: Row) -> str:
    keys = cell(row.get("nodes")).split()[:3]
    return "".join(f" {cite(key)}" for key in keys if key[0] != "+")


def _repair(turn: RulesTurn, row: Row) -> RuleCall | None:
    """Returns the proposal in a finding, given as `propose_… {arguments}`."""
    name, _, raw = cell(row.get("repair")).partition(" ")
    with suppress(ValueError, RecursionError):
        if name in turn.offered and isinstance(arguments := json.loads(raw), dict):
            return call(name, **{**arguments, "reason": plain(cell(row.get("what")), 300)})
    return None


def _proposed(turn: RulesTurn, repairs: Sequence[RuleCall]) -> Mapping[tuple[str, str], ToolTables]:
    """Returns the outcomes of the repairs; may end the handler with proposals.

    Once people have decided some of them, the graph may have changed: the rest waits for the next
    run.
    """
    outcomes = {
        key: answer for key, answer in turn.conversation.answered.items() if answer is not None
    }
    remaining = [call for call in repairs if call.signature not in outcomes]
    answers = [outcomes[call.signature] for call in repairs if call.signature in outcomes]
    if remaining and all(
        not answer.outcome or answer.outcome.get("status") in NOT_STORED for answer in answers
    ):
        turn.call(remaining[:MAX_CALLS])
    return outcomes


def _period(turn: RulesTurn) -> list[str]:
    """Returns both ends of the period that a message names. Default: the last week, in a
    conversation up to now.
    """
    question = fold(turn.conversation.question)
    pairs = (pair for language in LANGUAGES for pair in grammar(language).periods.items())
    matches = ((re.search(pattern, question), ends) for pattern, ends in pairs)
    named = (match.expand(ends).upper().split() for match, ends in matches if match)
    return next(named, ["-1_WEEK", "-1_WEEK" if FINISH in turn.offered else "NOW"])


def _changes(turn: RulesTurn) -> str:
    """Reports the changes in the period that the message names, and their authors."""
    start, end = _period(turn)
    answer = turn.read("read_history", **{"from": start, "to": end, "limit": 200})
    rows = answer.rows("changes")
    head = answer.notes[0] if answer.notes else ""
    period = " – ".join(_INSTANT.findall(head)).replace("T", " ") or f"{start} – {end}"
    if not rows:
        return turn.say("run_no_changes", period=period)
    turn.has_findings = True
    by = Counter(cell(row.get("who")) for row in rows).most_common(10)
    who = ", ".join(f"{plain(name, 60)} ({count})" for name, count in by)
    lines = [
        f"{cell(row.get('time')).replace('T', ' ')[:16]} {plain(cell(row.get('who')), 60)}: "
        f"{plain(cell(row.get('what')), 160)}"
        + (f" ({turn.say('run_undone')})" if row.get("undone") else "")
        for row in rows[:SHOWN]
    ]
    more = [turn.say("run_more", count=len(rows) - SHOWN)] if len(rows) > SHOWN else []
    summary = turn.say("run_changes", count=len(rows), who=who, period=period)
    return "\n".join([summary, bullets(lines), *more])


def _embeddings(turn: RulesTurn) -> str:
    """Requests the renewal of missing and outdated embeddings, and reports how many are missing."""
    answer = turn.read("refresh_embeddings")
    facts = {name: answer.fields.get(name, "?") for name in ("nodes", "missing", "model")}
    status = turn.say(
        "run_embeddings_queued" if answer.fields.get("queued") is True else "run_embeddings_kept"
    )
    return f"{turn.say('run_embeddings', **facts)} {status}"


# The tasks by their tools, in the order of a report.
TASKS: Mapping[str, Callable[[RulesTurn], str]] = {
    "read_history": _changes,
    "check_graph": _check,
    "refresh_embeddings": _embeddings,
}
