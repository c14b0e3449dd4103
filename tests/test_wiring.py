"""Objects get what they work with when they are made: nothing is assigned from outside."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("server", "graphrag/app", "graphrag/automations", "graphrag/voice")
ALLOWED = {
    # Starlette keeps the objects of an application and a request in its `state`.
    "server/app.py": {"app.state.setup", "app.state.server"},
    "server/access.py": {"request.state.request_id"},
    "server/auth.py": {"request.state.identity"},
    # Libraries whose constructors do not take these.
    "server/http_connections.py": {
        "self.conn.max_message_size",
        "self.socket.conn.max_message_size",
    },
    "server/mcp/mcp_server.py": {"made.extensions"},
    "graphrag/voice/twiml.py": {"dial.text", "say.text", "element.text", "element.attrib"},
}


def own_attributes(module: ast.Module) -> set[str]:
    """Returns the attributes of a module's own classes, whose objects it may change."""
    names: set[str] = set()
    for each in ast.walk(module):
        if isinstance(each, ast.ClassDef):
            names |= {
                part.target.id
                for part in each.body
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
            }
            names |= {
                node.attr
                for node in ast.walk(each)
                if isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and isinstance(node.value, ast.Name)
                and node.value.id == "self"
            }
    return names


def assignments(source: str) -> Iterator[str]:
    """Yields each attribute, as it is written, that is assigned to another object."""
    module = ast.parse(source)
    own = own_attributes(module)
    for node in ast.walk(module):
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
            continue
        text = ast.unparse(node)
        is_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        if not is_self and node.attr not in own:
            yield text


@pytest.mark.parametrize("room", ROOMS)
def test_no_module_assigns_attributes_of_objects_that_others_made(room: str) -> None:
    outside: dict[str, set[str]] = {}
    for file in (ROOT / room).rglob("*.py"):
        name = str(file.relative_to(ROOT))
        texts = set(assignments(file.read_text(encoding="utf-8")))
        if texts != ALLOWED.get(name, set()):
            outside[name] = texts
    assert outside == {}, "pass it to the constructor, or list it in ALLOWED with the reason"


def test_assignments_to_other_objects_are_found_in_every_form() -> None:
    source = """
class Own:
    mine: int

    def change(self, other, listeners):
        self.task = other.task
        other.mine = 1
        other.on_end = 1
        other.part.count += 1
        (self.task, other.pair) = 1, 2
        make().box: int = 3
        for other.each in listeners:
            pass
        with self.task as other.opened:
            pass
        [other.inner for other.inner in listeners]
"""
    assert set(assignments(source)) == {
        "other.on_end",
        "other.part.count",
        "other.pair",
        "make().box",
        "other.each",
        "other.opened",
        "other.inner",
    }
