"""Finds the node, type, sheet or handle that a person names; where it is not clear which, it asks back."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from datasources.text import tokenize
from graphrag.rules.conversation import Call
from graphrag.rules.markup import bullets, cite_row, code, plain
from graphrag.rules.normalized_text import EntityMention, fold, letters
from graphrag.rules.patterns import grammar
from graphrag.rules.tool_tables import Answer, Row, cell, key_of
from graphrag.rules.turn_state import Turn

MAX_NEAR = 5
NOTES = frozenset(("note", "group"))
"""Types of what is only written on the canvas."""

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")
_POINT = re.compile(
    r"(?P<side>[TDRL0]):(?P<id>[^,;<> ]+)(?:<(?P<accept>[^<>]*)>)?(?: (?P<label>'(?:[^']|'')*'|[^,;]+))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A node that was meant. `is_guess`: nothing has this name, but this one nearly has."""

    row: Row
    is_guess: bool = False

    @property
    def key(self) -> str:
        return key_of(self.row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclear:
    """No one node was meant for sure. `fits_several`: each of the candidates fits the name."""

    mention: EntityMention
    candidates: tuple[Row, ...]
    fits_several: bool = False


def find_nodes(turn: Turn, mentions: Sequence[EntityMention], *, sure: bool) -> list[Found | Unclear]:
    """Return the node of each mention. `sure`: look through the graph even if the context has one."""
    named = [_referent(turn, mention, sure) for mention in mentions]
    if not sure:
        exact = [_choose(mention, turn.conversation.nodes, exactly=True) for mention in named]
        if all(isinstance(choice, Found) for choice in exact):
            return [choice for choice in exact if choice is not None]
    texts = list(dict.fromkeys(mention.text for mention in named))
    read, *searches = turn.read_all(
        Call(name="read_subgraph", arguments={"keys": texts[:30], "fields": ["handles", "position"]}),
        *(Call(name="search_nodes", arguments={"query": text, "limit": 10}) for text in texts[:9]),
    )
    rows = [*read.rows("nodes"), *(row for answer in searches for row in answer.rows("found"))]
    chosen = [_choose(mention, rows, stems=not sure) for mention in named]
    near = {i: _near_keys(read, named[i]) for i, choice in enumerate(chosen) if choice is None}
    known = {key_of(row): row for row in rows} | turn.seen_nodes()
    unread = list(dict.fromkeys(key for keys in near.values() for key in keys if key not in known))
    if unread:  # what an error names is not believed before it was read
        more = turn.read("read_subgraph", keys=unread[:30], fields=["handles", "position"])
        known |= {key_of(row): row for row in more.rows("nodes")}
    return [
        choice or _nearly(named[i], [known[k] for k in near[i] if k in known], rows, sure)
        for i, choice in enumerate(chosen)
    ]


def the_nodes(turn: Turn, *mentions: EntityMention | None) -> list[Found]:
    """Return the node of each mention for a change; ends the handler with a question back."""
    found = find_nodes(turn, [mention for mention in mentions if mention is not None], sure=True)
    unclear = [one for one in found if isinstance(one, Unclear)]
    if unclear:
        turn.stop("\n".join([*(ask_which(turn, one) for one in unclear), turn.say("nothing_proposed")]))
    return [one for one in found if isinstance(one, Found)]


def the_node(turn: Turn, mention: EntityMention | None) -> Found | None:
    """Return the node of a question, None where the words name none; asks back where several fit."""
    if mention is None:
        return None
    (found,) = find_nodes(turn, [mention], sure=False)
    if isinstance(found, Found):
        return found
    if found.fits_several or (mention.is_short and found.candidates):
        turn.stop(ask_which(turn, found))
    return None


def guess_remark(turn: Turn, found: Found, mention: EntityMention | None) -> str:
    """Return the remark that a name was only nearly right; nothing when it was right."""
    if not found.is_guess or mention is None:
        return ""
    return turn.say("guessed", name=code(mention.text), node=cite_row(found.row, with_type=False)) + "\n"


def ask_which(turn: Turn, unclear: Unclear) -> str:
    """Return the question which node is meant, with the candidates."""
    name = code(unclear.mention.text)
    if not unclear.candidates:
        return turn.say("no_such_node", name=name)
    text = turn.say("several_nodes" if unclear.fits_several else "near_nodes", name=name)
    return f"{text}\n{bullets([cite_row(row) for row in unclear.candidates])}"


def _referent(turn: Turn, mention: EntityMention, sure: bool) -> EntityMention:
    """Return what `it` means: the one node that the last answer cited (a question takes the first)."""
    if code(mention.text) in turn.meant:
        return EntityMention(text=turn.meant[code(mention.text)], quoted=True)
    pronoun = grammar(turn.language).word("pronoun")
    if mention.quoted or not pronoun.fullmatch(fold(mention.text)):
        return mention
    cited = turn.conversation.last_cited
    if not cited or (sure and len(cited) > 1):
        turn.stop(turn.say("what_is_it", name=code(mention.text)))
    return EntityMention(text=next(iter(cited)), quoted=True)


def _choose(
    mention: EntityMention, rows: Iterable[Row], *, exactly: bool = False, stems: bool = True
) -> Found | Unclear | None:
    """Return the only node of a key, of a name or of all the words; `stems`: words may end otherwise."""
    unique = {key_of(row): row for row in rows if row.get("_key") is not None}
    if mention.text in unique:
        return Found(row=unique[mention.text])
    low = letters(mention.text)
    named = [
        row for key, row in unique.items() if low and low in (letters(key), letters(cell(row.get("name"))))
    ]
    if not named and not exactly:
        wanted = words_said(mention.text) if stems else _whole_words(mention.text)
        words = words_of if stems else _whole_words_of
        named = [row for row in unique.values() if wanted and wanted <= words(row)]
    if len(named) > 1:
        named = [row for row in named if row.get("type") not in NOTES] or named
    if len(named) > 1:
        return Unclear(mention=mention, candidates=tuple(named[:10]), fits_several=True)
    return Found(row=named[0]) if named else None


def _english(word: str) -> str:
    """Return a French word for a common type in English; types are named in English."""
    return grammar("fr").english.get(word, word)


def words_said(text: str) -> set[str]:
    """Return the stems of what a person said."""
    return set(tokenize(" ".join(map(_english, fold(text).split()))))


def words_of(row: Row) -> set[str]:
    """Return the stems of key, name and type of a row."""
    text = " ".join(cell(row.get(name)) for name in ("_key", "name", "type"))
    return set(tokenize(text)) | set(tokenize(fold(text)))


def _whole_words(text: str) -> set[str]:
    return set(map(_english, _WORD.findall(fold(_HUMP.sub(" ", text)))))


def _whole_words_of(row: Row) -> set[str]:
    return _whole_words(" ".join(cell(row.get(name)) for name in ("_key", "name", "type")))


def _near_keys(answer: Answer, mention: EntityMention) -> list[str]:
    """Return the keys that the tool suggests, which may or may not exist."""
    opening = f"no node {mention.text[:200]!r} in this graph; did you mean: "
    line = next((note for note in answer.notes if opening in note), "")
    parts = line.partition(opening)[2].split("; ")
    return [key for part in parts if (key := part.partition(" (")[0].strip()) and len(key) <= 200][:MAX_NEAR]


def _nearly(mention: EntityMention, near: list[Row], rows: Sequence[Row], sure: bool) -> Found | Unclear:
    low = letters(mention.text)
    if len(near) == 1 and not sure:
        names = (letters(key_of(near[0])), letters(cell(near[0].get("name"))))
        if any(difflib.SequenceMatcher(None, low, name).ratio() >= 0.75 for name in names if name):
            return Found(row=near[0], is_guess=True)
    if not near:
        wanted = words_said(mention.text)
        near = [row for row in rows if len(wanted & words_of(row)) * 2 >= max(1, len(wanted))][:3]
    return Unclear(mention=mention, candidates=tuple({key_of(row): row for row in near}.values()))


# Types and sheets


def read_types(turn: Turn) -> tuple[Row, ...]:
    """Return the types of the workspace, the most used first."""
    return turn.read("list_available_node_types", limit=100).rows("types")


def overview_and_types(turn: Turn) -> tuple[Answer, tuple[Row, ...]]:
    """Return the overview and the types, asked at once."""
    overview, types = turn.read_all(
        Call(name="read_graph_overview", arguments={}),
        Call(name="list_available_node_types", arguments={"limit": 100}),
    )
    return turn.checked(overview), types.rows("types")


def find_type(mention: EntityMention, rows: Sequence[Row]) -> Row | list[Row]:
    """Return the type that is meant, or those that may be (none: nothing is near)."""
    wanted, spelt = fold(mention.text), {letters(mention.text)}
    spelt |= {letters(_english(word)) for word in (wanted, wanted.removesuffix("s"))}
    named = [row for row in rows if mention.text == cell(row.get("type"))]
    named = named or [
        row for row in rows if spelt & {letters(cell(row.get("type"))), letters(cell(row.get("name")))}
    ]
    if not named:
        words = words_said(mention.text)
        named = [
            row
            for row in rows
            if words and words <= words_of({"type": row.get("type"), "name": row.get("name")})
        ]
    if len(named) == 1:
        return named[0]
    if named:
        return named[:10]
    texts = {letters(cell(row.get(name))): row for row in rows for name in ("type", "name")}
    near = difflib.get_close_matches(letters(mention.text), list(texts), n=MAX_NEAR, cutoff=0.6)
    return list({cell(texts[text].get("type")): texts[text] for text in near}.values())


def the_type(turn: Turn, mention: EntityMention | None, rows: Sequence[Row]) -> Row:
    """Return the type of a mention; ends the handler with a question back."""
    found: Row | list[Row] = find_type(mention, rows) if mention is not None else []
    if not isinstance(found, list):
        return found
    text = "near_types" if found else "no_such_type" if mention is not None else "which_type"
    asked = turn.say(text, name=code(mention.text) if mention else "")
    return turn.stop(f"{asked}\n{type_lines(found or rows[:15])}")


def type_lines(rows: Sequence[Row]) -> str:
    return bullets([_type_line(row) for row in rows])


def _type_line(row: Row) -> str:
    name, description = cell(row.get("name")), cell(row.get("description"))
    shown = code(cell(row.get("type")))
    if name and letters(name) != letters(cell(row.get("type"))):
        shown += f" {plain(name, 80)}"
    return f"{shown}: {plain(description, 160)}" if description else shown


def the_sheet(turn: Turn, mention: EntityMention, overview: Answer) -> Row:
    """Return the row of a sheet in the overview; ends the handler with a question back."""
    wanted = letters(mention.text)
    rows = {cell(row.get("sheet")): row for row in overview.rows("sheets")}
    for label, row in rows.items():
        number, _, name = label.partition(" ")
        if mention.text in (label, number, name) or (wanted and wanted in (letters(name), letters(label))):
            return row
    near = [label for label in rows if wanted and wanted in letters(label)]
    if len(near) == 1:
        return rows[near[0]]
    shown = bullets([plain(label, 80) for label in (near or list(rows))[:20]])
    return turn.stop(f"{turn.say('no_such_sheet', name=code(mention.text))}\n{shown}")


# Handles


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """A connection point."""

    id: str
    direction: str
    accept: str = "any"
    label: str = ""


def handles_of_node(detail: Answer) -> list[Handle]:
    """Return the handles that `read_node_detail` shows."""
    return [
        Handle(
            id=cell(row.get("handle")),
            direction=cell(row.get("direction")),
            accept=cell(row.get("accept")) or "any",
            label=cell(row.get("display")),
        )
        for row in detail.rows("handles")
    ]


def handles_of_type(config: Answer) -> list[Handle]:
    """Return the handles that `read_node_config` shows, as `in L:0; out R:0 success,R:1<number>`."""
    sides = re.findall(r"(?:^|; )(in|out) ((?:'(?:[^']|'')*'|[^;'])*)", config.text_of("handles"))
    return [
        Handle(
            id=point["id"],
            direction=direction,
            accept=point["accept"] or "any",
            label=(point["label"] or "").strip("'"),
        )
        for direction, part in sides
        for point in _POINT.finditer(part)
    ]


def of_direction(handles: Sequence[Handle], direction: str) -> list[Handle]:
    return [handle for handle in handles if handle.direction == direction]


def named_handles(handles: Sequence[Handle], name: str) -> list[Handle]:
    """Return the handles of an id or a label."""
    low = letters(name)
    return [h for h in handles if h.id == name] or [h for h in handles if low and letters(h.label) == low]


def fitting_pair(source: Sequence[Handle], target: Sequence[Handle]) -> tuple[Handle, Handle] | None:
    """Return the first output of one node and input of the other that accept the same."""
    pairs = product(of_direction(source, "out"), of_direction(target, "in"))
    return next((pair for pair in pairs if pair[0].accept == pair[1].accept or
                 "any" in (pair[0].accept, pair[1].accept)), None)  # fmt: skip
