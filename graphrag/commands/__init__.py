"""Blocks of messages, and the commands that read what they are about.

block → `commands` → data commands → `transform` → executable commands → `execute` → results and one system
message. Commands are made again each time and never stored; blocks and results are, with the messages.

From outside: `BlockReader`, the blocks it takes, the errors it raises, `GraphHistory`.
"""

from __future__ import annotations

from graphrag.commands.block_reader import BlockPreview, BlockReader
from graphrag.commands.blocks import Block, BlockRefused, Period, SentBlock, Target, TooManyBlocks
from graphrag.commands.graph_history import GraphHistory

__all__ = [
    "Block",
    "BlockPreview",
    "BlockReader",
    "BlockRefused",
    "GraphHistory",
    "Period",
    "SentBlock",
    "Target",
    "TooManyBlocks",
]
