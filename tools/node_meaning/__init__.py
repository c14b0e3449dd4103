"""Describes what a node does, for people and models, from its data.

`facts_of` reads the data into short facts, `write_facts` writes them within a length limit,
and `line_of` writes the one line shown on a card or in a list. To support the node types of
another editor, add a module with a table of readers and call it in `reading`.
"""

from tools.node_meaning.fact import NodeFact
from tools.node_meaning.reading import facts_of
from tools.node_meaning.writing import line_of, write_facts

__all__ = ["NodeFact", "facts_of", "line_of", "write_facts"]
