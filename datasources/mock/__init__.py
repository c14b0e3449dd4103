"""The in-memory database, for trials, for tests, and as the oracle of the contract suite.

Its code is as simple as possible: a change builds a new state of a graph and swaps it in, so that
every change is atomic. A search builds an exact index, which is kept with the state.
"""

from __future__ import annotations

from datasources.mock.source import MemoryDatabase, open_nba

__all__ = ["MemoryDatabase", "open_nba"]
