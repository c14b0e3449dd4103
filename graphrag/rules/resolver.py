"""Finds the node or type that a person names; where it is not clear which, it asks back."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphrag.rules.conversation import Call
from graphrag.rules.markup import bullets, cite_row, code, plain
from graphrag.rules.normalized_text import EntityMention, fold, letters
from graphrag.rules.patterns import grammar
from graphrag.rules.tool_tables import Row, cell, key_of
from graphrag.rules.turn_state import RulesTurn

MAX_NEAR = 5
NOTES = frozenset(("note", "group"))
"""Types of what is only written on the canvas."""

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclear:
    """No one node was meant for sure. `fits_several`: each of the candidates fits the name."""

    mention: EntityMention
    candidates: tuple[Row, ...]
    fits_several: bool = False


def find_nodes(turn: RulesTurn, mentions: Sequence[EntityMention]) -> list[Row | Unclear]:
    """Return the node of each mention."""
    names = list(dict.fromkeys(mention.text for mention in mentions))
    read, *searches = turn.read_all(
        Call(name="read_subgraph", arguments={"nodeKeys": names[:30], "fields": ["position"]}),
        *(Call(name="search_nodes", arguments={"query": name[:900], "maxResults": 10}) for name in names[:9]),
    )
    found = [*read.rows("nodes"), *(row for answer in searches for row in answer.rows("found"))]
    rows = {key_of(row): row for row in found}
    return [_node(mention, rows) for mention in mentions]


def _node(mention: EntityMention, rows: Mapping[str, Row]) -> Row | Unclear:
    named = fitting(mention.text, rows, ("_key", "name"))
    if len(named) > 1:  # a note is no node of the flow
        named = [row for row in named if row.get("type") not in NOTES] or named
    if len(named) == 1:
        return named[0]
    if named:
        return Unclear(mention=mention, candidates=tuple(named[:10]), fits_several=True)
    return Unclear(mention=mention, candidates=tuple(near(mention.text, rows, ("_key", "name"))))


def the_nodes(turn: RulesTurn, *mentions: EntityMention | None) -> list[Row]:
    """Return the node of each mention for a change; ends the handler with a question back."""
    return all_found(turn, find_nodes(turn, [mention for mention in mentions if mention is not None]))


def all_found(turn: RulesTurn, found: Sequence[Row | Unclear]) -> list[Row]:
    """Return what was found, if all was; ends the handler with a question back."""
    unclear = [ask_which(turn, one) for one in found if isinstance(one, Unclear)]
    if unclear:
        turn.stop("\n".join([*unclear, turn.say("nothing_proposed")]))
    return [one for one in found if not isinstance(one, Unclear)]


def asked_nodes(turn: RulesTurn, *slots: str) -> list[Row] | None:
    """Return the nodes of a question; None where words name no node. Asks back where several fit."""
    mentions = [mention for slot in slots if (mention := turn.request.mention(slot)) is not None]
    found = find_nodes(turn, mentions) if len(mentions) == len(slots) else []
    unclear = [one for one in found if isinstance(one, Unclear)]
    is_named = all(one.fits_several or one.mention.is_short for one in unclear)
    if unclear and is_named and (len(slots) > 1 or unclear[0].candidates):
        turn.stop("\n".join(ask_which(turn, one) for one in unclear))
    return None if unclear or not found else [one for one in found if not isinstance(one, Unclear)]


def ask_which(turn: RulesTurn, unclear: Unclear) -> str:
    """Return the question which node is meant, with the candidates."""
    name = code(unclear.mention.text)
    if not unclear.candidates:
        return turn.say("no_such_node", name=name)
    text = turn.say("several_nodes" if unclear.fits_several else "near_nodes", name=name)
    return f"{text}\n{bullets([cite_row(row) for row in unclear.candidates])}"


def fitting(text: str, rows: Mapping[str, Row], names: Sequence[str]) -> list[Row]:
    """Return the row of this key, else those with this name, else those that hold all the words.

    `names` are the columns of names; the words may also stand in the type.
    """
    if text in rows:
        return [rows[text]]
    alike = {letters(spelt) for spelt in (text, _english(fold(text)))} - {""}
    named = [row for row in rows.values() if alike & {letters(cell(row.get(name))) for name in names}]
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
    rows, names = read_types(turn), ("type", "name")
    types = {cell(row.get("type")): row for row in rows}
    named = fitting(mention.text, types, names) if mention is not None else []
    if len(named) == 1:
        return cell(named[0].get("type"))
    shown = named or (near(mention.text, types, names) if mention is not None else [])
    text = "near_types" if shown else "no_such_type" if mention is not None else "which_type"
    asked = turn.say(text, name=code(mention.text) if mention else "")
    return turn.stop(f"{asked}\n{type_lines((shown or rows)[:15])}")


def type_lines(rows: Sequence[Row]) -> str:
    """Return the types, a line each."""
    return bullets(
        [f"{code(cell(row.get('type')))}: {plain(cell(row.get('description')), 160)}" for row in rows]
    )
