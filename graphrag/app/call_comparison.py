"""Compares a stored call with its replay: outcome, tools, sources and the agent's words.

Words are compared as a set with repetitions, without case and punctuation: twice the number of
words that both calls have, divided by the number of words of both (Dice's coefficient). 1 is the
same words in any order, 0 none in common. It says nothing about meaning.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from graphrag.app.call_replay import arguments_of
from graphrag.simulator.script_player import node_key
from graphrag.voice.call_figures import FAILURES

Json = Mapping[str, Any]
Verdict = Literal["same", "changed", "worse"]
MAX_SHOWN: Final = 20  # tools and sources of one call
SHOWN_CHARS: Final = 300
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallComparison:
    """The differences between a stored call (`before`) and its replay.

    `lost_tools`: calls that succeeded before and now fail, with their answer, or are not made.
    `new_tools`: calls that only the replay made. Both with their arguments. `words`: 0 to 1, see
    the module. `problems`: why the replay is worse.
    """

    call_id: str
    verdict: Verdict
    outcome_before: str | None
    outcome: str | None
    lost_tools: tuple[str, ...] = ()
    new_tools: tuple[str, ...] = ()
    lost_sources: tuple[str, ...] = ()
    new_sources: tuple[str, ...] = ()
    words: float = 1.0
    problems: tuple[str, ...] = ()

    def to_document(self) -> dict[str, Any]:
        """Returns the comparison as JSON."""
        names = {
            "call_id": "callId",
            "outcome_before": "outcomeBefore",
            "lost_tools": "lostTools",
            "new_tools": "newTools",
            "lost_sources": "lostSources",
            "new_sources": "newSources",
        }
        return {names.get(name, name): value for name, value in asdict(self).items()}


def compare_calls(before: Json, after: Json, *, min_words: float) -> CallComparison:
    """Returns the differences of a replay.

    It is worse if the outcome differs, a tool or a source is lost, the call broke, or `words` is
    below `min_words`.
    """
    lost_tools, new_tools = _tool_changes(before, after)
    sources = [_sources(call) for call in (before, after)]
    lost_sources, new_sources = sources[0] - sources[1], sources[1] - sources[0]
    words = shared_words(_said(before), _said(after))
    problems: list[str] = []
    if before.get("outcome") != after.get("outcome"):
        problems.append(f"outcome {before.get('outcome')} → {after.get('outcome')}")
    problems += [f"tool lost: {tool}" for tool in lost_tools]
    problems += [f"source lost: {source}" for source in sorted(lost_sources)[:MAX_SHOWN]]
    if (reason := after.get("endReason")) in FAILURES and reason != before.get("endReason"):
        problems.append(f"ended by {reason}")
    if words < min_words:
        problems.append(f"words {words:.2f} < {min_words:g}")
    is_same = not (new_tools or new_sources) and words == 1
    return CallComparison(
        call_id=str(before["callId"]),
        verdict="worse" if problems else "same" if is_same else "changed",
        outcome_before=before.get("outcome"),
        outcome=after.get("outcome"),
        lost_tools=tuple(lost_tools[:MAX_SHOWN]),
        new_tools=tuple(new_tools[:MAX_SHOWN]),
        lost_sources=tuple(sorted(lost_sources)[:MAX_SHOWN]),
        new_sources=tuple(sorted(new_sources)[:MAX_SHOWN]),
        words=words,
        problems=tuple(problems[:MAX_SHOWN]),
    )


def shared_words(before: Iterable[str], after: Iterable[str]) -> float:
    """Returns the share of words in common, 0 to 1. Texts without any word are the same."""
    counts = [Counter(_WORD.findall(" ".join(texts).casefold())) for texts in (before, after)]
    total = sum(count.total() for count in counts)
    return 1.0 if total == 0 else round(2 * (counts[0] & counts[1]).total() / total, 3)


def _said(call: Json) -> list[str]:
    entries = call.get("transcript", ())
    return [str(entry["content"]) for entry in entries if entry.get("role") == "assistant"]


def _sources(call: Json) -> set[str]:
    return {
        f"{source.get('graph')}/{node_key(node)}"
        for source in call.get("sources", ())
        for node in source.get("nodes", ())
    }


def _tool_changes(before: Json, after: Json) -> tuple[list[str], list[str]]:
    """Returns the lost and the new calls of tools. Calls that failed before are not lost."""
    succeeded = Counter(_written(tool) for tool in before.get("tools", ()) if tool.get("ok"))
    tried = Counter(_written(tool) for tool in before.get("tools", ()))
    now = Counter(_written(tool) for tool in after.get("tools", ()) if tool.get("ok"))
    failed = {
        _written(tool): str(tool.get("result") or "")
        for tool in after.get("tools", ())
        if not tool.get("ok")
    }
    lost = [
        f"{tool} → {failed[tool][:SHOWN_CHARS]}" if tool in failed else tool
        for tool in (succeeded - now).elements()
    ]
    made = Counter(_written(tool) for tool in after.get("tools", ()))
    return lost, list((made - tried).elements())


def _written(tool: Json) -> str:
    """Returns a call of a tool as its name and arguments."""
    arguments = json.dumps(arguments_of(tool), ensure_ascii=False, sort_keys=True)
    return f"{tool.get('name')} {arguments[:SHOWN_CHARS]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """The comparisons of an evaluation. `left_out`: calls that were not replayed, with the reason.
    `more`: older calls were not looked at.
    """

    compared: Sequence[CallComparison]
    left_out: Mapping[str, str]
    more: bool = False

    def count(self, verdict: Verdict) -> int:
        """Returns the number of calls with a verdict."""
        return sum(one.verdict == verdict for one in self.compared)

    @property
    def worse_percent(self) -> float:
        return 100 * self.count("worse") / len(self.compared) if self.compared else 0.0

    def outcomes(self) -> list[tuple[str | None, str | None, int]]:
        """Returns pairs of outcomes, before and now, with their number, most frequent first."""
        pairs = Counter((one.outcome_before, one.outcome) for one in self.compared)
        return [(*pair, count) for pair, count in pairs.most_common()]

    def to_document(self) -> dict[str, Any]:
        """Returns the report as JSON."""
        words = [one.words for one in self.compared]
        return {
            "replayed": len(self.compared),
            **{verdict: self.count(verdict) for verdict in ("same", "changed", "worse")},
            "worsePercent": round(self.worse_percent, 2),
            "words": round(sum(words) / len(words), 3) if words else None,
            "outcomes": [
                {"before": before, "now": now, "calls": count}
                for before, now, count in self.outcomes()
            ],
            "leftOut": [{"callId": key, "reason": why} for key, why in self.left_out.items()],
            "more": self.more,
            "calls": [one.to_document() for one in self.compared],
        }
