"""Finds settings of nodes (credentials, models, prompts and others), and the text of a node that
best matches a question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from datasources.text import tokenize
from datasources.types import Node
from tools.checks.checked_graph import NO_STEPS, data_of

KINDS: Final = (
    *("credential", "model", "prompt", "url", "schedule"),
    *("tool", "memory", "recipient", "table", "disabled"),
)
MAX_LEAVES = 2_000
MAX_CHARS = 600
_SKIPPED = re.compile(r"(?:^|\.)(?:__rl|mode|schema|cachedResult\w+|displayName)(?:\.|$)")
_VALUE = re.compile(r"\.(?:value|\d+|__value)$")
_SERVES: Mapping[str, tuple[str, ...]] = {
    "model": ("ai_languageModel", "ai_embedding"),
    "tool": ("ai_tool",),
    "memory": ("ai_memory",),
}
"""Output handles of nodes that serve another node, by kind."""

_LEAVES: Mapping[str, re.Pattern[str]] = {
    "credential": re.compile(r"^credentials\.\w+|(?:^|\.)(?:credential|broker|server)$"),
    "model": re.compile(r"(?:^|\.)(?:model(?:Id|Name)?|deployment(?:Name)?)$"),
    "prompt": re.compile(
        r"(?:^|\.)(?:system(?:Message|Prompt)?|\w*[pP]rompt|instructions?|messages\.\S*content)$"
    ),
    "url": re.compile(r"(?:^|\.)(?:url|uri|endpoint|baseU(?:rl|RL))$"),
    "recipient": re.compile(
        r"(?:^|\.)(?:sendTo|to(?:Email|Recipients|List)?|recipients?|chat_?[iI]d|channel(?:Id)?|phone\w*)$"
    ),
    "table": re.compile(
        r"(?:^|\.)(?:table(?:Id|Name)?|sheetName|documentId|collection(?:Name)?|database(?:Id)?|base|bucket\w*"
        r"|\w*[iI]ndex(?:Name)?)$"
    ),
}  # fmt: skip
_LLM = re.compile(
    r"agent|chain|llm|openai|anthropic|gemini|mistral|lmchat|perplexity|classifier", re.IGNORECASE
)
_STORE = re.compile(
    r"sql|postgres|mongo|redis|supabase|airtable|sheets|database|nocodb|oracledb", re.IGNORECASE
)
_ADDRESS = re.compile(r"=?\s*(?:https?|wss?|mqtts?|ftp)://\S", re.IGNORECASE)
_CLOCK = re.compile(r"schedule|cron|interval|inject|trigger|poll", re.IGNORECASE)
_PIECES = re.compile(r"\n+|(?<=[.!?]) +")


def leaves(value: Any) -> Iterator[tuple[str, str]]:
    """Yields each text, number and boolean in JSON data with its dotted path.

    A resource locator of n8n (`__rl`) yields the name of the selected item.
    """
    stack: list[tuple[str, Any]] = [("", value)]
    for _ in range(MAX_LEAVES):
        if not stack:
            return
        path, item = stack.pop()
        if isinstance(item, Mapping):
            pairs = cast(Mapping[str, Any], item)
            if "__rl" in pairs:
                pairs = {"value": pairs.get("cachedResultName") or pairs.get("value")}
            stack += [
                (f"{path}.{k}".removeprefix("."), v) for k, v in reversed(list(pairs.items()))
            ]
        elif isinstance(item, list | tuple):
            stack += [
                (f"{path}.{i}", v) for i, v in reversed(list(enumerate(cast(Sequence[Any], item))))
            ]
        elif item is not None and item != "" and not _SKIPPED.search(path):
            yield _VALUE.sub("", path), str(item)


def values_of(node: Node, kind: str) -> list[str] | None:
    """Returns the values of a kind in a node; None if it has none.

    Returns [] if the node itself is of that kind, as a model node without a model name.
    """
    if node.type in NO_STEPS:
        return None
    data = data_of(node)
    if kind == "disabled":
        return [] if data.get("disabled") is True or data.get("d") is True else None
    if kind == "schedule":
        return schedule_of(node.type, data) or None
    is_store = kind == "table" and _STORE.search(node.type) is not None
    serves = is_store or any(point.id in _SERVES.get(kind, ()) for _, point in node.points("out"))
    pattern = _LEAVES.get(kind)
    values = (
        []
        if pattern is None
        else [v for path, v in leaves(data) if _is_of(kind, pattern, path, v, node)]
    )
    return list(dict.fromkeys(value[:MAX_CHARS] for value in values)) or ([] if serves else None)


def _is_of(kind: str, pattern: re.Pattern[str], path: str, value: str, node: Node) -> bool:
    if kind == "url":
        return bool(_ADDRESS.match(value) or pattern.search(path)) or (
            path.endswith("parameters.path") and "webhook" in node.type.lower()
        )
    is_text = path.rpartition(".")[2] in ("text", "content") and kind == "prompt"
    return bool(pattern.search(path)) or (is_text and _LLM.search(node.type) is not None)


def schedule_of(kind: str, data: Mapping[str, Any]) -> list[str]:
    """Returns the schedules of a trigger node, as `every day at 02:05` or a cron expression."""
    parameters = data.get("parameters")
    settings = cast(Mapping[str, Any], parameters) if isinstance(parameters, Mapping) else data
    if not _CLOCK.search(kind):
        return []
    rule = settings.get("rule") or settings.get("triggerTimes") or settings.get("pollTimes")
    groups = cast(Mapping[str, Any], rule).values() if isinstance(rule, Mapping) else ()
    items = [item for group in groups if isinstance(group, list) for item in cast(list[Any], group)]
    schedules = [
        _interval(cast(Mapping[str, Any], item)) for item in items if isinstance(item, Mapping)
    ]
    crontab = settings.get("crontab")
    repeat = settings.get("repeat")
    return schedules + [str(crontab)] * bool(crontab) + [f"every {repeat} s"] * bool(repeat)


def _interval(item: Mapping[str, Any]) -> str:
    if cron := item.get("expression") or item.get("cronExpression"):
        return str(cron)
    if mode := item.get("mode"):  # `everyMinute`
        return " ".join(re.findall(r"[A-Z]?[a-z]+", str(mode))).lower()
    unit = str(item.get("field") or "days")
    count = item.get(f"{unit}Interval") or 1
    text = f"every {unit.removesuffix('s')}" if count == 1 else f"every {count} {unit}"
    days = item.get("triggerAtDay")
    text += (
        f" (day {', '.join(map(str, cast(list[Any], days)))})"
        if isinstance(days, list) and days
        else ""
    )
    hour = item.get("triggerAtHour")
    minute = item.get("triggerAtMinute") or 0
    if hour is None and unit in ("minutes", "hours", "seconds"):
        return text
    return f"{text} at {hour or 0:0>2}:{minute:0>2}"


def best_text(node: Node, words: frozenset[str], limit: int) -> str | None:
    """Returns the sentence or setting of a node that shares the most words (stems) with `words`.

    Returns None if no text of the node contains one of them.
    """

    def shared(candidate: tuple[str, str]) -> tuple[int, int]:
        return len(words.intersection(tokenize(" ".join(candidate)))), -len(candidate[1])

    pieces = [
        (path, piece) for path, text in leaves(node.data) for piece in _PIECES.split(text[:20_000])
    ]
    pieces += [("", line) for line in (node.process or "")[:20_000].split("\n")]
    path, piece = max((pair for pair in pieces if pair[1].strip()), key=shared, default=("", ""))
    if not shared((path, piece))[0]:
        return None
    name = path.removeprefix("parameters.")
    text = " ".join(piece.split()).lstrip("#*- ")
    is_prose = node.type in NO_STEPS or name in ("", "name")
    return (text if is_prose else f"{name}: {text}")[:limit]
