"""Finds the node or type that a person names; where it is not clear which, it asks back."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from graphrag.rules.markup import bullets, cite_row, code, plain
from graphrag.rules.normalized_text import EntityMention, fold, letters
from graphrag.rules.patterns import grammar
from graphrag.rules.tool_tables import Row, cell, key_of
from graphrag.rules.turn_state import GraphNamed, NotNamed, RulesTurn, call

MAX_NEAR, MAX_NAME_WORDS = 5, 1
NOTES = frozenset(("note", "group"))
"""Types of what is only written on the canvas."""

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")


def find_nodes(turn: RulesTurn, mentions: Sequence[EntityMention]) -> list[Row | str]:
    """Return the node of each mention, or the question which one is meant."""
    names = list(dict.fromkeys(mention.text for mention in mentions))[:9]
    keys = [*names, *("-".join(_WORD.findall(fold(name))) for name in names)]  # imports make such keys
    read, *searches = turn.read_all(
        call("read_subgraph", nodeKeys=list(dict.fromkeys(filter(None, keys))), fields=["position"]),
        *(call("search_nodes", query=name[:900], maxResults=10) for name in names),
    )
    found = [*read.rows("nodes"), *(row for answer in searches for row in answer.rows("found"))]
    rows = {key_of(row): row for row in found}
    return [_choose(turn, mention, rows, "nodes") for mention in mentions]


def _choose(turn: RulesTurn, mention: EntityMention, rows: Mapping[str, Row], kind: str) -> Row | str:
    """Return the row that a name fits, or the question which one is meant; `kind`: nodes or types."""
    names = ("_key", "name") if kind == "nodes" else ("type", "name")
    named = fitting(mention.text, rows, names)
    if kind == "nodes":  # a note is no node of the flow
        named = [row for row in named if row.get("type") not in NOTES] or named
    if len(named) == 1:
        return named[0]
    shown = named[:10] or near(mention.text, rows, names)
    text = f"several_{kind}" if named else f"near_{kind}" if shown else f"no_such_{kind}"
    lines = bullets(list(map(cite_row, shown))) if kind == "nodes" else type_lines(shown)
    return f"{turn.say(text, name=code(mention.text))}\n{lines}".strip()


def the_nodes(turn: RulesTurn, *mentions: EntityMention | None) -> list[str]:
    """Return the key of the node of each mention for a change; ends the handler with a question back."""
    found = find_nodes(turn, [mention for mention in mentions if mention is not None])
    unclear = [one for one in found if isinstance(one, str)]
    if unclear:
        turn.stop("\n".join([*unclear, turn.say("nothing_proposed")]))
    return [key_of(one) for one in found if not isinstance(one, str)]


def asked_nodes(turn: RulesTurn, *slots: str) -> list[str]:
    """Return the keys of the nodes of a question; may end the handler with one back.

    Raises: NotNamed, GraphNamed.
    """
    mentions = [mention for slot in slots if (mention := turn.request.mention(slot)) is not None]
    found = find_nodes(turn, mentions) if len(mentions) == len(slots) else [""]
    unclear = [one for one in found if isinstance(one, str)]
    can_be_names = all(one.quoted or len(one.text.split()) <= MAX_NAME_WORDS for one in mentions)
    if unclear and [letters(turn.conversation.graph_name)] == [letters(one.text) for one in mentions]:
        raise GraphNamed
    if unclear and not (mentions and can_be_names):
        raise NotNamed
    return turn.stop("\n".join(unclear)) if unclear else the_nodes(turn, *mentions)


def fitting(text: str, rows: Mapping[str, Row], names: Sequence[str]) -> list[Row]:
    """Return the row of this key, else those with this name, spelt just so or alike, else those that hold all
    the words.

    `names` are the columns of names; the words may also stand in the type.
    """
    if text in rows:
        return [rows[text]]
    alike = {letters(spelt) for spelt in (text, _english(fold(text)))} - {""}
    named = [row for row in rows.values() if alike & {letters(cell(row.get(name))) for name in names}]
    named = [row for row in named if fold(text) in {fold(cell(row.get(name))) for name in names}] or named
    wanted = words_of(text)
    return named or [row for row in rows.values() if wanted and wanted <= _words_in(row, names)]


def near(text: str, rows: Mapping[str, Row], names: Sequence[str]) -> list[Row]:
    """Return rows with a name much like this one, then those that hold half of its words."""
    spelt = {letters(cell(row.get(name))): row for row in rows.values() for name in names}
    close = [spelt[name] for name in difflib.get_close_matches(letters(text), list(spelt), MAX_NEAR, 0.6)]
    wanted = words_of(text)
    sharing = [row for row in rows.values() if 0 < len(wanted) <= 2 * len(wanted & _words_in(row, names))]
    return list({id(row): row for row in (*close, *sharing)}.values())[:MAX_NEAR]


def _words_in(row: Row, names: Sequence[str]) -> set[str]:
    return words_of(" ".join(cell(row.get(name)) for name in (*names, "type")))


def words_of(text: str) -> set[str]:
    """Return the words of a name, without the s of a plural; common types are named in English."""
    found = (word.removesuffix("s") for word in _WORD.findall(fold(_HUMP.sub(" ", text))))
    return {_english(word) for word in found if word}


def _english(word: str) -> str:
    return grammar("fr").english.get(word, word)


def read_types(turn: RulesTurn) -> tuple[Row, ...]:
    """Return the types of the workspace, the most used first."""
    return turn.read("list_available_node_types", maxResults=100).rows("types")


def the_type(turn: RulesTurn, mention: EntityMention | None) -> str:
    """Return the key of the type of a mention; ends the handler with a question back."""
    rows = {cell(row.get("type")): row for row in read_types(turn)}
    if mention is None:
        turn.stop(f"{turn.say('which_type')}\n{type_lines(list(rows.values())[:15])}")
    found = _choose(turn, mention, rows, "types")
    return turn.stop(found) if isinstance(found, str) else cell(found.get("type"))


def type_lines(rows: Sequence[Row]) -> str:
    """Return the types, a line each."""
    return bullets([f"{code(cell(r.get('type')))}: {plain(cell(r.get('description')), 160)}" for r in rows])
