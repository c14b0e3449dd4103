"""Reads the facts of n8n nodes. Readers are chosen by the last part of the node type:
`n8n-nodes-base.httpRequest` → `httpRequest`.

Types without a reader are read by the structure of their parameters, with operation and
resource first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tools.node_meaning.conditions import condition_facts, switch_facts
from tools.node_meaning.fact import ESSENTIAL, Json, NodeFact, as_map, as_maps, words_of, written
from tools.node_meaning.shapes import assignment_facts, tree_facts

Reader = Callable[[Json], Iterator[NodeFact]]


def _request(parameters: Json) -> Iterator[NodeFact]:
    # n8n does not store the default GET.
    method = parameters.get("method") or parameters.get("requestMethod") or "GET"
    url = parameters.get("url")
    yield NodeFact(f"{written(method)} {written(url) if url else '(no address)'}", rank=ESSENTIAL)
    for name in ("jsonBody", "body", "rawBody", "bodyParametersJson"):
        if parameters.get(name):
            yield NodeFact(written(parameters[name]), "body")


def _webhook(parameters: Json) -> Iterator[NodeFact]:
    path = str(parameters.get("path") or "").lstrip("/")
    yield NodeFact(f"{written(parameters.get('httpMethod') or 'GET')} /{path}", rank=ESSENTIAL)


def _wait(parameters: Json) -> Iterator[NodeFact]:
    amount = parameters.get("amount")
    unit = parameters.get("unit") or "seconds"
    if amount is not None:
        yield NodeFact(f"{written(amount)} {written(unit)}", rank=ESSENTIAL)
    elif "unit" in parameters:
        yield NodeFact(written(unit), "unit")


def _merge(parameters: Json) -> Iterator[NodeFact]:
    mode = words_of(str(parameters.get("mode") or "append"))
    by = parameters.get("combineBy") or parameters.get("combinationMode")
    yield NodeFact(f"{mode}, {words_of(str(by))}" if by else mode, rank=ESSENTIAL)


def _sort(parameters: Json) -> Iterator[NodeFact]:
    for field in as_maps(as_map(parameters.get("sortFieldsUi")).get("sortField")):
        order = written(field.get("order") or "ascending")
        yield NodeFact(f"by {written(field.get('fieldName') or '')} {order}", rank=ESSENTIAL)


def _limit(parameters: Json) -> Iterator[NodeFact]:
    kept = "last" if parameters.get("keep") == "lastItems" else "first"
    yield NodeFact(f"{kept} {written(parameters.get('maxItems') or 1)} items", rank=ESSENTIAL)


def _split(parameters: Json) -> Iterator[NodeFact]:
    if parameters.get("batchSize") is not None:
        yield NodeFact(f"batches of {written(parameters['batchSize'])}", rank=ESSENTIAL)


def _names(*names: str) -> frozenset[str]:
    return frozenset(names)


READERS: Final[Mapping[str, tuple[Reader, frozenset[str]]]] = {
    "if": (condition_facts, _names("conditions", "combineOperation")),
    "filter": (condition_facts, _names("conditions", "combineOperation")),
    "switch": (switch_facts, _names("rules", "value1", "dataType", "output", "fallbackOutput")),
    "set": (
        assignment_facts,
        _names("assignments", "fields", "values", "jsonOutput", "keepOnlySet")
        | _names("includeFields", "excludeFields"),
    ),
    **dict.fromkeys(
        ("httpRequest", "httpRequestTool", "toolHttpRequest"),
        (
            _request,
            _names(
                "method",
                "requestMethod",
                "url",
                "jsonBody",
                "body",
                "rawBody",
                "bodyParametersJson",
            )
            | _names("sendBody", "sendHeaders", "sendQuery", "specifyBody", "specifyHeaders")
            | _names("specifyQuery"),
        ),
    ),
    "webhook": (_webhook, _names("path", "httpMethod")),
    "wait": (_wait, _names("amount", "unit")),
    "merge": (_merge, _names("mode", "combineBy", "combinationMode")),
    "sort": (_sort, _names("sortFieldsUi")),
    "limit": (_limit, _names("maxItems", "keep")),
    "splitInBatches": (_split, _names("batchSize")),
}
"""The reader of a node type's main parameters, and the names of the parameters it covers."""

_FIRST: Final = (
    "query",
    "table",
    "model",
    "modelId",
    "documentId",
    "sheetName",
    "base",
    "workflowId",
)
"""Parameters that, if present, come right after the operation."""


def parameter_facts(node_type: str, parameters: Json) -> Iterator[NodeFact]:
    """Yields the facts of an n8n node's parameters, the operation first."""
    read, covered = READERS.get(
        node_type.rpartition(".")[2], (_operation, _names("resource", "operation"))
    )
    yield from read(parameters)
    others = {name: value for name, value in parameters.items() if name not in covered}
    for name in _FIRST:
        if name in others:
            for fact in tree_facts({name: others.pop(name)}):
                yield NodeFact(fact.value, fact.label, ESSENTIAL)
    yield from tree_facts(others)


def _operation(parameters: Json) -> Iterator[NodeFact]:
    words = [
        words_of(str(parameters[name]))
        for name in ("operation", "resource")
        if parameters.get(name)
    ]
    if words:
        yield NodeFact(" ".join(words), rank=ESSENTIAL)


def is_n8n(node_type: str, data: Mapping[str, Any]) -> bool:
    """Returns whether a node is an n8n node: its type has a package, and the package is one
    of n8n or the node has parameters.
    """
    package, dot, name = node_type.rpartition(".")
    return bool(dot and name) and ("n8n-nodes" in package or "parameters" in data)
