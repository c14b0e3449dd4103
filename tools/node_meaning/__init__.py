"""What a node does: short statements and a line, written from its data for people and models.

`facts_of` reads, `write_facts` writes within a limit, `line_of` gives the one line of a
card or a list. A new editor's node types are one module with a table of readers, and one
entry in `reading.READERS`.
"""

from tools.node_meaning.fact import NodeFact
from tools.node_meaning.reading import facts_of
from tools.node_meaning.writing import line_of, write_facts

__all__ = ["NodeFact", "facts_of", "line_of", "write_facts"]
