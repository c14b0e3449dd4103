"""The JSON Schema of the agent document (draft 2020-12), for editors, `nodius agents schema` and the docs.

From outside: `agent_schema`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from graphrag.agents.document import AgentDocument

SCHEMA_ID = "nodius-agent/2.0"
_LEFT_OUT = ("title", "discriminator")


@cache
def agent_schema() -> dict[str, Any]:
    """Return the schema. For reading."""
    schema = cast(dict[str, Any], _closed(AgentDocument.model_json_schema()))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **schema}


def _closed(part: Any, *, names_fields: bool = False) -> Any:
    """Return a part without what only OpenAPI reads, closed to names that match no pattern.

    `names_fields`: the members of this part are fields, which may have any name.
    """
    if isinstance(part, list):
        return [_closed(item) for item in cast(list[Any], part)]
    if not isinstance(part, dict):
        return part
    pairs = cast(dict[str, Any], part)
    closed = {
        name: value if name in ("default", "examples") else _closed(value, names_fields=name in _OF_FIELDS)
        for name, value in pairs.items()
        if names_fields or name not in _LEFT_OUT
    }
    if "patternProperties" in closed and not names_fields:
        closed["additionalProperties"] = False
    return closed


_OF_FIELDS = ("properties", "$defs", "patternProperties")
