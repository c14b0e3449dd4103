"""Options that put blocks into a message: what it uses, what it points at, since when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, get_args

import typer

from graphrag.commands import Period, SentBlock, Target
from graphrag.commands.blocks import BlockType, TargetKind

UseOption = Annotated[
    list[str] | None, typer.Option("--use", metavar="NODE", help="Read this node whole. May be repeated.")
]
PointerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--pointer",
        metavar="KEY",
        help="Read this: a node, or graph:KEY, sheet:KEY, edge:KEY, nodeType:NAME. May be repeated.",
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option(metavar="PERIOD", help="Read also what changed there since then, as -7_DAY."),
]


def blocks_of(use: Sequence[str] | None, pointer: Sequence[str] | None, since: str | None) -> list[SentBlock]:
    """Return the blocks that options name. Raises: typer.BadParameter."""
    named = [("USE", key) for key in use or ()] + [("POINTER", key) for key in pointer or ()]
    if since is not None and not named:
        raise typer.BadParameter("--since needs --use or --pointer")
    period = None if since is None else Period(start=since, end="NOW")
    return [
        _block(number, "USE" if kind == "USE" else "POINTER", key, period)
        for number, (kind, key) in enumerate(named, start=1)
    ]


def _block(number: int, block_type: BlockType, named: str, period: Period | None) -> SentBlock:
    kind, separator, key = named.partition(":")
    known = next((one for one in get_args(TargetKind) if one == kind and separator), None)
    target = Target(kind="node", key=named) if known is None else Target(kind=known, key=key)
    return SentBlock(id=f"b{number}", type=block_type, target=target, period=period)
