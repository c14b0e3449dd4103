"""Facts about a node, and the text of the single values in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from tools.compact import squeeze
from tools.secret_texts import PLACEHOLDER, REFERENCE, is_secret_name, redacted

Json = Mapping[str, Any]

ESSENTIAL: Final = 0
"""Rank of facts that say what the node does: its condition, request, schedule, operation."""
SETTING: Final = 1
DETAIL: Final = 2
"""Rank of options that are off and other settings that rarely answer a question."""

MAX_DEPTH = 12
MAX_FACTS = 400  # for one node; `read_node_detail` shows all of its data in pages
MAX_FACT_CHARS = 100_000  # for all facts of one node together
MAX_VALUE_CHARS = 20_000  # for one value; the rest is not read

_WHOLE_EXPRESSION = re.compile(r"=\s*\{\{((?:(?!\}\}).)*)\}\}\s*", re.DOTALL)
_WORD_IN_CAMEL = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")

_CONTAINERS = frozenset(
    (
        *("parameters", "parameter", "options", "values", "value", "fields", "field", "ui", "rule"),
        *("additionalFields", "otherOptions", "updateFields", "filters", "properties"),
    )
)
"""Names of container objects: they are too general to label the values inside."""

IGNORED = frozenset(
    (
        *("__rl", "cachedResultName", "cachedResultUrl", "schema", "displayName", "typeValidation"),
        *("caseSensitive", "looseTypeValidation", "attemptToConvertTypes", "convertFieldsToString"),
        *(
            "matchType",
            "singleValue",
            "defaultMatch",
            "canBeUsedToMatch",
            "removed",
            "builtInTools",
        ),
        *("fallbackOutput", "renameFallbackOutput"),
    )
)
"""Fields that an editor stores for itself: types, copies of schemas, cached addresses."""


@dataclass(frozen=True, slots=True)
class NodeFact:
    """One statement about a node: a `value` with a `label`, which is "" if the value needs none.

    `rank` orders facts: ESSENTIAL before SETTING before DETAIL.
    """

    value: str
    label: str = ""
    rank: int = SETTING

    @property
    def text(self) -> str:
        return f"{self.label}: {self.value}" if self.label else self.value


def as_map(value: Any) -> Json:
    """Returns a JSON object unchanged, and an empty one for any other value."""
    return cast(Json, value) if isinstance(value, Mapping) else {}


def as_maps(value: Any) -> list[Json]:
    """Returns the JSON objects in a list; [] for any other value."""
    items = cast(Sequence[Any], value) if isinstance(value, list | tuple) else ()
    return [cast(Json, item) for item in items if isinstance(item, Mapping)]


def written(value: Any) -> str:
    """Returns a value on one line, with secrets redacted; an n8n expression without its `={{}}`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return locator_text(cast(Json, value)) or ", ".join(
            f"{fact.label} = {fact.value}" if fact.label else fact.value
            for fact in leaf_facts(value)
        )
    if isinstance(value, list | tuple):
        return ", ".join(written(item) for item in cast(Sequence[Any], value))
    text = str(value)[:MAX_VALUE_CHARS]
    if whole := _WHOLE_EXPRESSION.fullmatch(text):
        text = whole[1]
    elif text.startswith("=") and len(text) > 1:
        text = text[1:]
    return squeeze(redacted(text).text)


def locator_text(value: Json) -> str:
    """Returns the target of an n8n resource locator (`__rl`) as its name with its id; "" for
    any other object.
    """
    if "__rl" not in value:
        return ""
    target = value.get("value")
    target_text = written(target) if target not in (None, "") else ""
    name = value.get("cachedResultName")
    if not name or str(name) == target_text:
        return target_text
    return f"{written(name)} ({target_text})" if target_text else written(name)


def words_of(camel_case: str) -> str:
    """Returns a name as words: `isNotEmpty` → `is not empty`."""
    return " ".join(_WORD_IN_CAMEL.findall(camel_case)).lower() or camel_case


def leaf_facts(value: Any, label: str = "", depth: int = 0) -> Iterator[NodeFact]:
    """Yields a fact for each value in JSON data, without the fields of `IGNORED`.

    Its label is the innermost field name that is not a container.
    """
    if value is None or value == "" or depth > MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        pairs = cast(Json, value)
        if "__rl" in pairs:
            if target := locator_text(pairs):
                yield NodeFact(target, label)
            return
        for name, inner in pairs.items():
            if name not in IGNORED:
                yield from leaf_facts(inner, telling_name(name, label), depth + 1)
    elif isinstance(value, list | tuple):
        items = cast(Sequence[Any], value)
        if all(not isinstance(item, Mapping | list | tuple) for item in items):
            kept = [written(item) for item in items if item not in (None, "")]
            if kept:
                yield NodeFact(", ".join(kept), label)
            return
        for item in items:
            yield from leaf_facts(item, label, depth + 1)
    else:
        yield NodeFact(setting_text(label, value), label, DETAIL if value is False else SETTING)


def setting_text(name: str, value: Any) -> str:
    """Returns the value of a field as text; a placeholder if it is a secret typed in by hand."""
    is_typed = isinstance(value, str) and not REFERENCE.search(value)
    return PLACEHOLDER if is_typed and is_secret_name(name) else written(value)


def telling_name(name: str, outer: str) -> str:
    """Returns the label for values under `name`: `name`, or `outer` if `name` is a container."""
    is_container = name in _CONTAINERS or name.isdigit() or name.endswith(("Ui", "UI"))
    return outer if is_container else name
