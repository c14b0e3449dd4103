"""The tree of a query."""

from __future__ import annotations


class N:
    """A tree node: kind, position, and whatever fields the kind has."""

    def __init__(self, kind, pos, **fields):
        self.kind = kind
        self.pos = pos
        self.__dict__.update(fields)

    def walk(self):
        yield self
        for v in list(self.__dict__.values()):
            yield from _walk(v)


def _walk(v):
    if isinstance(v, N):
        yield from v.walk()
    elif isinstance(v, (list, tuple)):
        for x in v:
            yield from _walk(x)


class Query:
    def __init__(self, text):
        self.text = text
        self.statements = []
        self.binds = set()
        self.reads = []
        self.writes = []
        self.withs = []

    @property
    def modifies(self):
        return bool(self.writes)
