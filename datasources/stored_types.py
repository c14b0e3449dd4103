"""The stored node types that a workspace sees: its own and those of the root workspace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from datasources.builtin_types import visible_types
from datasources.types import NodeTypeConfig, parse_document

_TYPE_BYTES = 4_000  # estimated bytes of a parsed type in memory


@final
@dataclass(frozen=True, slots=True)
class HeldTypes:
    """Types as a cache holds them."""

    configs: list[NodeTypeConfig]

    @property
    def nbytes(self) -> int:
        return _TYPE_BYTES * len(self.configs)


def parsed_configs(rows: Iterable[tuple[str, bytes]], workspace: str) -> list[NodeTypeConfig]:
    """Returns the types that a workspace sees, of the rows (workspace, document) of its own types
    and of those of `root`.
    """
    own: list[NodeTypeConfig] = []
    root: list[NodeTypeConfig] = []
    for owner, body in rows:
        config = parse_document(NodeTypeConfig, body, "node_configs")
        (own if owner == workspace else root).append(config)
    return visible_types(own, root)
