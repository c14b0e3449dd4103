"""Reads the facts of Node-RED nodes by their type. `parameters` are the fields of the node.

Source: the cookbook and the help of the core nodes, https://nodered.org/docs/
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tools.node_meaning.fact import (
    DETAIL,
    ESSENTIAL,
    Json,
    NodeFact,
    as_maps,
    leaf_facts,
    words_of,
    written,
)

Reader = Callable[[Json], Iterator[NodeFact]]

_PLACES: Final = frozenset(("msg", "flow", "global", "env"))
_SIGNS: Final[Mapping[str, str]] = {
    **{"eq": "=", "neq": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">=", "btwn": "between"},
    **{
        "cont": "contains",
        "regex": "matches",
        "true": "is true",
        "false": "is false",
        "null": "is null",
    },
    **{
        "nnull": "is not null",
        "empty": "is empty",
        "nempty": "is not empty",
        "istype": "is of type",
    },
    **{"hask": "has the key", "jsonata_exp": "expression", "else": "otherwise"},
    **{"is": "=", "is_not": "!=", "includes": "includes", "does_not_include": "does not include"},
}


def typed(value: Any, kind: Any) -> str:
    """Returns a typed value of Node-RED as text: `msg.topic`, JSON, or `now` for a timestamp."""
    if kind == "date":
        return "now"
    text = written(value)
    if kind in _PLACES:
        return f"{kind}.{text}"
    return f"'{text}'" if kind == "str" and not text else text


def _inject(parameters: Json) -> Iterator[NodeFact]:
    if parameters.get("once"):
        yield NodeFact("at start", rank=ESSENTIAL)
    payload = parameters.get("payload")
    kind = parameters.get("payloadType")
    if kind == "date" or payload not in (None, ""):
        yield NodeFact(f"payload = {typed(payload, kind)}", rank=ESSENTIAL)
    if parameters.get("topic"):
        yield NodeFact(f"topic = {written(parameters['topic'])}")
    for item in as_maps(parameters.get("props")):
        if "v" in item:
            yield NodeFact(f"{written(item.get('p'))} = {typed(item['v'], item.get('vt'))}")


def _change(parameters: Json) -> Iterator[NodeFact]:
    for rule in as_maps(parameters.get("rules")):
        place = typed(rule.get("p"), rule.get("pt", "msg"))
        target = typed(rule.get("to"), rule.get("tot"))
        match rule.get("t"):
            case "set":
                text = f"{place} = {target}"
            case "move":
                text = f"move {place} to {target}"
            case "delete":
                text = f"delete {place}"
            case "change":
                text = (
                    f"in {place} replace {typed(rule.get('from'), rule.get('fromt'))} by {target}"
                )
            case other:
                text = f"{other} {place} {target}"
        yield NodeFact(text, rank=ESSENTIAL)
    if not parameters.get("rules") and parameters.get("property"):  # before version 0.14
        action = parameters.get("action") or "replace"
        name = written(parameters["property"])
        yield NodeFact(f"{action} {name}: {written(parameters.get('to') or '')}", rank=ESSENTIAL)


def _switch(parameters: Json) -> Iterator[NodeFact]:
    subject = typed(parameters.get("property") or "payload", parameters.get("propertyType", "msg"))
    for place, rule in enumerate(as_maps(parameters.get("rules")), 1):
        sign = _SIGNS.get(str(rule.get("t")), str(rule.get("t")))
        if rule.get("t") == "else":
            text = "otherwise"
        elif "v" not in rule:
            text = f"{subject} {sign}"
        else:
            upper = f" and {typed(rule['v2'], rule.get('v2t'))}" if "v2" in rule else ""
            text = f"{subject} {sign} {typed(rule['v'], rule.get('vt'))}{upper}"
        yield NodeFact(f"{place} ← {text}", rank=ESSENTIAL)


def _request(parameters: Json) -> Iterator[NodeFact]:
    method = str(parameters.get("method") or "GET")
    method_text = "method of msg.method," if method == "use" else method.upper()
    url = parameters.get("url") or parameters.get("endpoint")
    yield NodeFact(f"{method_text} {written(url) if url else 'address of msg.url'}", rank=ESSENTIAL)


def _endpoint(parameters: Json) -> Iterator[NodeFact]:
    method = str(parameters.get("method") or "get").upper()
    yield NodeFact(f"{method} {written(parameters.get('url') or '/')}", rank=ESSENTIAL)


def _delay(parameters: Json) -> Iterator[NodeFact]:
    kind = parameters.get("pauseType")
    if kind in ("delay", "delayv"):
        yield NodeFact(
            f"{written(parameters.get('timeout'))} {parameters.get('timeoutUnits')}", rank=ESSENTIAL
        )
    elif kind == "random":
        ends = (
            f"{written(parameters.get('randomFirst'))} to {written(parameters.get('randomLast'))}"
        )
        yield NodeFact(f"{ends} {parameters.get('randomUnits')}", rank=ESSENTIAL)
    else:
        pace = (
            f"{written(parameters.get('rate'))} per {written(parameters.get('nbRateUnits') or 1)}"
        )
        extra = ", others dropped" if parameters.get("drop") else ""
        yield NodeFact(f"{pace} {parameters.get('rateUnits') or 'second'}{extra}", rank=ESSENTIAL)


def _catch(parameters: Json) -> Iterator[NodeFact]:
    scope = parameters.get("scope")
    yield NodeFact(
        f"errors of {written(scope)}" if scope else "errors of all nodes", rank=ESSENTIAL
    )
    if parameters.get("uncaught"):
        yield NodeFact("only those that nothing else catches")


def _state(parameters: Json) -> Iterator[NodeFact]:
    """Yields the entity that a Home Assistant node reads, and the state that it compares with."""
    entity = parameters.get("entity_id") or parameters.get("entityId") or parameters.get("entityid")
    state = parameters.get("halt_if") or parameters.get("ifState") or parameters.get("haltIfState")
    operator = parameters.get("halt_if_compare") or parameters.get("ifStateOperator") or "is"
    condition = (
        f" {_SIGNS.get(str(operator), words_of(str(operator)))} {written(state)}"
        if state not in (None, "")
        else ""
    )
    if entity:
        yield NodeFact(f"{written(entity)}{condition}", rank=ESSENTIAL)


def _service(parameters: Json) -> Iterator[NodeFact]:
    """Yields the action of Home Assistant that a node calls, on what, and with which data."""
    action = (
        parameters.get("action")
        or f"{parameters.get('domain') or ''}.{parameters.get('service') or ''}"
    )
    targets = [
        written(parameters[name])
        for name in ("entityId", "deviceId", "areaId")
        if parameters.get(name)
    ]
    yield NodeFact(
        f"{written(action)}{' on ' + ', '.join(targets) if targets else ''}", rank=ESSENTIAL
    )
    if parameters.get("data"):
        yield NodeFact(written(parameters["data"]), "data", ESSENTIAL)


def _mqtt(parameters: Json) -> Iterator[NodeFact]:
    if parameters.get("topic"):
        yield NodeFact(f"topic {written(parameters['topic'])}", rank=ESSENTIAL)


READERS: Final[Mapping[str, tuple[Reader, frozenset[str]]]] = {
    "inject": (
        _inject,
        frozenset(
            ("crontab", "repeat", "once", "onceDelay", "payload", "payloadType", "topic", "props")
        ),
    ),
    "change": (_change, frozenset(("rules", "action", "property", "from", "to", "reg"))),
    "switch": (
        _switch,
        frozenset(("rules", "property", "propertyType", "checkall", "repair", "outputs")),
    ),
    "http request": (_request, frozenset(("method", "url", "paytoqs", "ret"))),
    "http in": (_endpoint, frozenset(("method", "url"))),
    "delay": (
        _delay,
        frozenset(
            (
                *(
                    "pauseType",
                    "timeout",
                    "timeoutUnits",
                    "rate",
                    "nbRateUnits",
                    "rateUnits",
                    "drop",
                ),
                *("randomFirst", "randomLast", "randomUnits", "allowrate", "outputs"),
            )
        ),
    ),
    "catch": (_catch, frozenset(("scope", "uncaught"))),
    "mqtt in": (_mqtt, frozenset(("topic",))),
    "mqtt out": (_mqtt, frozenset(("topic",))),
    "api-current-state": (
        _state,
        frozenset(("entity_id", "halt_if", "halt_if_compare", "halt_if_type", "state_type")),
    ),
    "server-state-changed": (
        _state,
        frozenset(
            ("entityId", "ifState", "ifStateOperator", "ifStateType", "entityIdType", "stateType")
        ),
    ),
    "api-call-service": (
        _service,
        frozenset(
            ("action", "domain", "service", "entityId", "deviceId", "areaId", "data", "dataType")
        ),
    ),
}
"""The reader of a node type's main fields, and the names of the fields it covers."""

_INTERNAL: Final = frozenset(
    (
        *(
            "noerr",
            "libs",
            "insecureHTTPParser",
            "persist",
            "senderr",
            "style",
            "version",
            "debugenabled",
        ),
        *(
            "mustacheAltTags",
            "blockInputOverrides",
            "outputProperties",
            "statusType",
            "statusVal",
            "reg",
        ),
        *("forType", "forUnits", "tosidebar", "targetType", "queue", "x", "y", "w", "h", "d", "z"),
    )
)
"""Fields that the editor stores for itself, and defaults that no question is about."""


def parameter_facts(node_type: str, parameters: Json) -> Iterator[NodeFact]:
    """Yields the facts of a Node-RED node's fields, its main function first."""
    read, covered = READERS.get(node_type, (None, frozenset[str]()))
    if read is not None:
        yield from read(parameters)
    others = {name: value for name, value in parameters.items() if name not in covered}
    for name, value in others.items():
        for fact in leaf_facts({name: value}):
            yield NodeFact(fact.value, fact.label, DETAIL if name in _INTERNAL else fact.rank)
