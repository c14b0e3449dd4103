"""Blocks of messages, and the commands that read the data for them.

block → `commands` → data commands → `execute` → results and one system message. Commands are
derived from the blocks each time and not stored; blocks and results are stored with the messages.

Other packages import the names of `__all__`, `blocks` and `graph_history`.
"""

from __future__ import annotations

from graphrag.commands.block_reader import BlockChecker, BlockReader, BlockSummary
from graphrag.commands.blocks import (
    Block,
    BlockRefused,
    Period,
    SentBlock,
    Target,
    TooManyBlocks,
    blocks_of,
    words_of,
)
from graphrag.commands.graph_history import GraphHistory

__all__ = [
    "Block",
    "BlockChecker",
    "BlockReader",
    "BlockRefused",
    "BlockSummary",
    "GraphHistory",
    "Period",
    "SentBlock",
    "Target",
    "TooManyBlocks",
    "blocks_of",
    "words_of",
]
