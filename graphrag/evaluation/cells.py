"""Measures how many of a node's values appear in its text in contexts, by family of node types.

The values are collected independently of `tools.node_meaning`: every text and number in a node's
data, except an editor's own data (ids, versions, copies of schemas) and the names of operators and
types. A long value counts as shown if its beginning is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from datasources.types import Node
from graphrag.importers import UnreadableWorkflow, import_workflow
from graphrag.retrieval.context_rows import DATA_CHARS
from tools.checks.checked_graph import NO_STEPS
from tools.node_meaning import facts_of, write_facts

# Characters of a value that are compared.
BEGINNING_CHARS = 60

# Families by the last part of a type's name; other types form the family `others`.
FAMILIES: Final[Mapping[str, frozenset[str]]] = {
    "conditions": frozenset(("if", "filter", "switch")),
    "assignments": frozenset(("set", "change")),
    "requests": frozenset(
        (
            *("httpRequest", "httpRequestTool", "toolHttpRequest", "webhook", "respondToWebhook"),
            *("http request", "http in", "http response"),
        )
    ),
    "schedules": frozenset(("scheduleTrigger", "cron", "interval", "inject", "delay", "wait")),
    "stores": frozenset(
        (
            *(
                "googleSheets",
                "googleSheetsTool",
                "googleDrive",
                "airtable",
                "dataTable",
                "notion",
                "nocoDb",
            ),
            *(
                "postgres",
                "postgresTool",
                "mySql",
                "mysql",
                "mongoDb",
                "redis",
                "supabase",
                "oracleDatabase",
            ),
            *(
                "vectorStoreSupabase",
                "vectorStorePGVector",
                "vectorStoreQdrant",
                "vectorStorePinecone",
            ),
        )
    ),
    "models and prompts": frozenset(
        (
            *(
                "agent",
                "chainLlm",
                "openAi",
                "informationExtractor",
                "textClassifier",
                "lmChatOpenAi",
            ),
            *("outputParserStructured", "toolWorkflow"),
        )
    ),
    "messages": frozenset(
        ("telegram", "slack", "gmail", "discord", "emailSend", "microsoftOutlook")
    ),
    "devices": frozenset(
        (
            *(
                "mqtt in",
                "mqtt out",
                "api-current-state",
                "api-call-service",
                "server-state-changed",
            ),
            *("catch",),
        )
    ),
}

# Names of fields that no question asks about, or whose values are written as words (units, kinds of
# comparison).
_STORED_BY_EDITOR: Final = frozenset(
    (
        *(
            "__rl",
            "mode",
            "cachedResultName",
            "cachedResultUrl",
            "schema",
            "displayName",
            "typeValidation",
        ),
        *(
            "caseSensitive",
            "version",
            "id",
            "type",
            "operator",
            "combinator",
            "looseTypeValidation",
        ),
        *(
            "valueType",
            "vt",
            "pt",
            "tot",
            "payloadType",
            "propertyType",
            "combineOperation",
            "dataType",
        ),
        *(
            "style",
            "members",
            "group",
            "language",
            "libs",
            "outputProperties",
            "t",
            "props",
            "mappingMode",
        ),
        *(
            "specifyBody",
            "specifyHeaders",
            "specifyQuery",
            "valueProvider",
            "checkall",
            "onceDelay",
        ),
        *("rateUnits", "nbRateUnits", "rate", "randomFirst", "randomLast", "randomUnits"),
        *("halt_if_type", "state_type", "stateType", "ifStateType", "entityIdType"),
        *("timeoutUnits", "pauseType", "field", "halt_if_compare", "forType", "forUnits", "queue"),
    )
)

_NO_LETTERS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class CellScores:
    """The scores of one family: its nodes with values, their values, the values shown, and the
    nodes without any value shown.
    """

    family: str
    nodes: int
    values: int
    shown: int
    silent: int

    @property
    def share(self) -> float:
        return self.shown / self.values if self.values else 1.0


def family_of(node_type: str) -> str:
    """Returns the family of a node type."""
    name = node_type.rpartition(".")[2]
    return next((family for family, names in FAMILIES.items() if name in names), "others")


def values_in(data: Any, name: str = "") -> Iterator[str]:
    """Yields the texts and numbers in a node's data that a question may ask for."""
    if isinstance(data, Mapping):
        pairs = cast(Mapping[str, Any], data)
        is_comparison = "value1" in pairs or "value2" in pairs
        for key, value in pairs.items():
            if key not in _STORED_BY_EDITOR and not (is_comparison and key == "operation"):
                yield from values_in(value, key)
    elif isinstance(data, list | tuple):
        for item in cast(Sequence[Any], data):
            yield from values_in(item, name)
    elif not isinstance(data, bool) and data not in (None, ""):
        yield str(data)


def score_cells(nodes: Iterable[Node]) -> list[CellScores]:
    """Returns the number of values shown by the nodes' texts in contexts, by family, the largest
    first.
    """
    counts: dict[str, list[int]] = {}
    for node in nodes:
        if node.type in NO_STEPS or not isinstance(node.data, Mapping):
            continue
        pairs = cast(Mapping[str, Any], node.data)
        data = {key: value for key, value in pairs.items() if key != "name"}
        beginnings = [
            begin for value in values_in(data) if (begin := _letters(value)[:BEGINNING_CHARS])
        ]
        if not beginnings:
            continue
        cell = _letters(write_facts(facts_of(node), DATA_CHARS) or "")
        shown = sum(value in cell for value in beginnings)
        count = counts.setdefault(family_of(node.type), [0, 0, 0, 0])
        for place, number in enumerate((1, len(beginnings), shown, shown == 0)):
            count[place] += number
    rows = [
        CellScores(family=family, nodes=count[0], values=count[1], shown=count[2], silent=count[3])
        for family, count in counts.items()
    ]
    return sorted(rows, key=lambda row: -row.values)


def read_workflow_nodes(folder: Path) -> tuple[list[Node], list[str]]:
    """Returns the nodes of every workflow file in a folder, and the reasons why files were
    skipped.
    """
    nodes: list[Node] = []
    left_out: list[str] = []
    for file in sorted(folder.glob("*.json")):
        try:
            result = import_workflow(file.read_bytes(), file_name=file.name, workspace="eval")
        except (OSError, UnreadableWorkflow) as exc:
            left_out.append(f"{file.name}: {exc}")
            continue
        nodes += result.nodes
    return nodes, left_out


def _letters(text: str) -> str:
    return _NO_LETTERS.sub("", text).casefold()
