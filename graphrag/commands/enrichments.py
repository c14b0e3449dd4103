"""What a block needs to be read: a list of data commands, made again each time and stored nowhere; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from graphrag.commands.blocks import Block, BlockType, TargetKind
from tools.proposals import hash_of

CommandType = Literal[
    "SCHEMA",
    "TYPES",
    "TYPE_CONFIG",
    "TYPE_USES",
    "TYPE_EXAMPLES",
    "GRAPHS",
    "GRAPH",
    "SHEET",
    "NODES",
    "NODE",
    "NODE_DATA",
    "NODE_LINKS",
    "NODE_STATS",
    "EDGE",
    "HISTORY",
    "APP_STATE",
    "CURRENT_DATETIME",
]

POINTED_AT: Mapping[TargetKind, CommandType] = {
    "graph": "GRAPH",
    "sheet": "SHEET",
    "node": "NODE",
    "edge": "EDGE",
    "nodeType": "SCHEMA",
}
ON_NODE: Mapping[BlockType, tuple[CommandType, ...]] = {
    "USE": ("SCHEMA", "NODE", "NODE_DATA", "NODE_LINKS", "NODE_STATS"),
    "MODIFY_CONFIG": ("SCHEMA", "NODE", "NODE_DATA"),
}
ON_TYPE: Mapping[BlockType, tuple[CommandType, ...]] = {
    "CREATE": ("SCHEMA", "TYPE_EXAMPLES"),
    "MODIFY_CONFIG": ("SCHEMA", "TYPE_CONFIG", "TYPE_USES"),
}
WITH_HISTORY: tuple[BlockType, ...] = ("POINTER", "USE")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataCommand:
    """One thing to read. `params` are local keys and periods as written; `relative`: one of them counts
    from the moment at which it is resolved."""

    type: CommandType
    params: Mapping[str, str]
    relative: bool = False

    @property
    def id(self) -> str:
        """The hash of what is read: the same one twice in a message is read once."""
        return hash_of([self.type, dict(self.params)])[:16]


def commands(block: Block) -> list[DataCommand]:
    """Return what is read for a block, in order."""
    target = block.target
    named = {target.kind: target.key}
    if block.type == "POINTER":
        types: tuple[CommandType, ...] = (POINTED_AT[target.kind],)
    else:
        types = (ON_NODE if target.kind == "node" else ON_TYPE)[block.type]
    found = [DataCommand(type=one, params=named, relative=one == "NODE_STATS") for one in types]
    period = block.period
    if period is not None and block.type in WITH_HISTORY:
        params = {**named, "from": period.start, "to": period.end}
        found.append(DataCommand(type="HISTORY", params=params, relative=period.is_relative))
    return found
