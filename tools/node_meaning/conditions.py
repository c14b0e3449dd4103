"""Writes conditions of n8n nodes as text: filter groups, the lists by type of version 1, and
the rules of a switch.

Source: the forms of the `If`, `Filter` and `Switch` nodes, versions 1 to 3,
https://docs.n8n.io/integrations/builtin/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tools.node_meaning.fact import ESSENTIAL, Json, NodeFact, as_map, as_maps, words_of, written

SYMBOLS: Final[Mapping[str, str]] = {
    **{"equals": "=", "equal": "=", "notEquals": "!=", "notEqual": "!="},
    **{"gt": ">", "larger": ">", "gte": ">=", "largerEqual": ">="},
    **{"lt": "<", "smaller": "<", "lte": "<=", "smallerEqual": "<="},
    **{
        "regex": "matches",
        "notRegex": "does not match",
        "exists": "exists",
        "notExists": "does not exist",
    },
    **{
        "empty": "is empty",
        "isEmpty": "is empty",
        "notEmpty": "is not empty",
        "isNotEmpty": "is not empty",
    },
    **{"true": "is true", "isTrue": "is true", "false": "is false", "isFalse": "is false"},
    **{"notContains": "does not contain", "notStartsWith": "does not start with"},
    **{"notEndsWith": "does not end with"},
}
"""Text of each operation. An operation that is not listed is written as the words of its name."""

UNARY: Final = frozenset(
    (
        *("exists", "notExists", "empty", "isEmpty", "notEmpty", "isNotEmpty"),
        *("true", "isTrue", "false", "isFalse"),
    )
)

_DEFAULT_OPERATIONS: Final[Mapping[str, str]] = {"number": "smaller", "dateTime": "after"}
"""The default operation of version 1 by data type; `equal` for the other types."""


def group_text(group: Json) -> str:
    """Returns a filter group (versions 2 and 3) as `left op right and left op right`; "" if
    the group is empty.
    """
    joined = " or " if group.get("combinator") == "or" else " and "
    return joined.join(filter(None, map(_condition, as_maps(group.get("conditions")))))


def _condition(condition: Json) -> str:
    operator = as_map(condition.get("operator"))
    operation = str(operator.get("operation") or "equals")
    unary = bool(operator.get("singleValue")) or operation in UNARY
    return comparison(
        condition.get("leftValue"), operation, condition.get("rightValue"), unary=unary
    )


def comparison(left: Any, operation: str, right: Any, *, unary: bool = False) -> str:
    """Returns one comparison as text; "" if both sides are empty."""
    if left in (None, "") and right in (None, ""):
        return ""
    sign = SYMBOLS.get(operation) or words_of(operation)
    left_text = "''" if left in (None, "") else written(left)
    if unary or operation in UNARY:
        return f"{left_text} {sign}"
    return f"{left_text} {sign} {chr(39) * 2 if right in (None, '') else written(right)}"


def is_group(value: Any) -> bool:
    """Returns whether a value is a filter group of version 2 or later."""
    group = as_map(value)
    return isinstance(group.get("conditions"), list) and (
        "combinator" in group or "options" in group
    )


def older_text(parameters: Json) -> str:
    """Returns the conditions of version 1 as text. They are stored as lists by data type:
    `{"number": [{value1, operation…}]}`.
    """
    joined = " or " if parameters.get("combineOperation") == "any" else " and "
    conditions = parameters.get("conditions")
    typed = (
        as_map(conditions).items() if isinstance(conditions, Mapping) else [("string", conditions)]
    )
    texts = [_older(kind, item) for kind, items in typed for item in as_maps(items)]
    return joined.join(filter(None, texts))


def _older(kind: str, item: Json) -> str:
    operation = str(item.get("operation") or _DEFAULT_OPERATIONS.get(kind, "equal"))
    return comparison(item.get("value1"), operation, item.get("value2"))


def condition_facts(parameters: Json) -> Iterator[NodeFact]:
    """Yields the condition of an `If` or `Filter` node of any version."""
    conditions = parameters.get("conditions")
    text = group_text(as_map(conditions)) if is_group(conditions) else older_text(parameters)
    if text:
        yield NodeFact(text, rank=ESSENTIAL)


def switch_facts(parameters: Json) -> Iterator[NodeFact]:
    """Yields a fact for each output of a `Switch` node: `output ← condition`."""
    rules = as_map(parameters.get("rules"))
    for place, rule in enumerate(as_maps(rules.get("values"))):
        condition = group_text(as_map(rule.get("conditions")))
        name = rule.get("outputKey") if rule.get("renameOutput", True) else None
        if condition or name:
            yield NodeFact(
                f"{written(name or place)} ← {condition or 'no condition'}", rank=ESSENTIAL
            )
    kind = str(parameters.get("dataType") or "number")
    for rule in as_maps(
        rules.get("rules")
    ):  # versions 1 and 2: one value is compared by every rule
        operation = str(rule.get("operation") or _DEFAULT_OPERATIONS.get(kind, "equal"))
        left = parameters.get("value1")
        right = rule.get("value2")
        output = rule.get("outputKey") or rule.get("output") or 0
        yield NodeFact(f"{written(output)} ← {comparison(left, operation, right)}", rank=ESSENTIAL)
    if parameters.get("output") not in (None, ""):
        yield NodeFact(f"output {written(parameters['output'])}", rank=ESSENTIAL)
    options = as_map(parameters.get("options"))
    fallback = parameters.get("fallbackOutput", options.get("fallbackOutput"))
    if fallback not in (None, "", -1, "none"):
        yield NodeFact(f"{written(options.get('renameFallbackOutput') or fallback)} ← otherwise")
