"""The in-memory database: for trying things out, for tests, and the oracle of the contract suite.

The simplest correct code: a change builds a new state of a graph and swaps it in, so nothing is
ever half done; a search builds an exact index of the state and keeps it as long as the state.
"""

from __future__ import annotations

from datasources.mock.source import MemoryDatabase, open_nba

__all__ = ["MemoryDatabase", "open_nba"]
