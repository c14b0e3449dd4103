"""The parts about declarative agents: the fields of their documents, and what can be
wrong with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from graphrag.agents.document import agent_schema
from graphrag.agents.document_check import WARNINGS
from graphrag.agents.shape_problems import allowed_by
from graphrag.i18n import text
from tests.support.document_codes import ERRORS, WORLD_ERRORS


def agent_fields_part() -> str:
    """Return a table of fields for each kind of object in an agent document, from
    its JSON Schema.
    """
    tables: list[str] = []
    seen: set[str] = set()
    waiting = [("", agent_schema())]
    while waiting:
        path, shape = waiting.pop(0)
        tables.append(_table(path, shape))
        below = list[tuple[str, dict[str, Any]]]()
        for name, field in shape["properties"].items():
            for suffix, kind in _objects(field):
                if kind["description"] not in seen:
                    seen.add(kind["description"])
                    below.append((f"{path}{name}{suffix}.", kind))
        waiting = below + waiting
    return "\n\n".join(tables)


def _table(path: str, shape: dict[str, Any]) -> str:
    heading = (
        f"#### `{path.rstrip('.')}`: {shape['description']}"
        if path
        else f"#### {shape['description']}"
    )
    rows = ["| field | allowed | default | meaning | example |", "|---|---|---|---|---|"]
    needed = shape.get("required", ())
    for name, field in shape["properties"].items():
        default = "needed" if name in needed else _default(field)
        allowed = allowed_by(field).replace("*", chr(92) + "*")
        cells = (f"`{name}`", allowed, default, field["description"], _code(field["examples"][0]))
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([heading, "", *rows])


def _objects(field: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of ours that may stand in a field, with what follows the field's name."""
    if "$ref" in field:
        yield "", agent_schema()["$defs"][field["$ref"].rpartition("/")[2]]
    for kind in (*field.get("anyOf", ()), *field.get("oneOf", ())):
        yield from _objects(kind)
    inner = [("[]", field["items"])] if "items" in field else []
    inner += [(".NAME", member) for member in field.get("patternProperties", {}).values()]
    for suffix, member in inner:
        yield from ((f"{suffix}{more}", kind) for more, kind in _objects(member))


def _default(field: dict[str, Any]) -> str:
    default = field.get("default")
    return "none" if default in (None, "", [], {}) else _code(default)


def _code(value: Any) -> str:
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def agent_errors_part() -> str:
    """Return what can be wrong with a document, by its code."""
    kinds = (("error", ERRORS), ("error, needs the world", WORLD_ERRORS), ("warning", WARNINGS))
    rows = [
        f"| `{code}` | {kind} | {text(f'problem_{code}', 'en')} |"
        for kind, codes in kinds
        for code in sorted(codes)
    ]
    return "\n".join(["| code | kind | meaning |", "|---|---|---|", *rows])
