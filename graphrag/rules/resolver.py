"""Finds the node, type, sheet or handle that a person names; where it is not clear which, it asks back."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from datasources.text import tokenize
from graphrag.rules.conversation import Call
from graphrag.rules.markup import bullets, cite_row, code, plain
from graphrag.rules.normalized_text import EntityMention, fold, letters
from graphrag.rules.patterns import grammar
from graphrag.rules.tool_tables import Row, ToolTables, cell, key_of
from graphrag.rules.turn_state import RulesTurn

MAX_NEAR = 5
MAX_LISTED = 20
NOTES = frozenset(("note", "group"))
"""Types of what is only written on the canvas."""

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")
_POINT = re.compile(
    r"(?P<side>[TDRL0]):(?P<id>[^,;<> ]+)(?:<(?P<accept>[^<>]*)>)?(?: (?P<label>'(?:[^']|'')*'|[^,;]+))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNode:
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


# Nodes


def find_nodes(
    turn: RulesTurn, mentions: Sequence[EntityMention], *, sure: bool
) -> list[FoundNode | Unclear]:
    """Return the node of each mention. `sure`: look through the graph even if the context has one."""
    named = [_referent(turn, mention, sure) for mention in mentions]
    if not sure:
        exact = [_choose(mention, turn.conversation.nodes, exactly=True) for mention in named]
        if all(isinstance(choice, FoundNode) for choice in exact):
            return [choice for choice in exact if choice is not None]
    texts = list(dict.fromkeys(mention.text for mention in named))
    read, *searches = turn.read_all(
        Call(name="read_subgraph", arguments={"nodeKeys": texts[:30], "fields": ["position"]}),
        *(Call(name="search_nodes", arguments={"query": text, "maxResults": 10}) for text in texts[:9]),
    )
    rows = [*read.rows("nodes"), *(row for answer in searches for row in answer.rows("found"))]
    chosen = [_choose(mention, rows, stems=not sure) for mention in named]
    near = {i: _near_keys(read, named[i]) for i, choice in enumerate(chosen) if choice is None}
    known = {key_of(row): row for row in rows}
    unread = list(dict.fromkeys(key for keys in near.values() for key in keys if key not in known))
    if unread:  # what an error names is not believed before it was read
        more = turn.read("read_subgraph", nodeKeys=unread[:30], fields=["position"])
        known |= {key_of(row): row for row in more.rows("nodes")}
    return [
        choice or _nearly(named[i], [known[k] for k in near[i] if k in known], rows, sure)
        for i, choice in enumerate(chosen)
    ]


def the_nodes(turn: RulesTurn, *mentions: EntityMention | None) -> list[FoundNode]:
    """Return the node of each mention for a change; ends the handler with a question back."""
    return all_found(turn, find_nodes(turn, [m for m in mentions if m is not None], sure=True))


def all_found(turn: RulesTurn, found: Sequence[FoundNode | Unclear]) -> list[FoundNode]:
    """Return what was found, if all was; ends the handler with a question back."""
    unclear = [ask_which(turn, one) for one in found if isinstance(one, Unclear)]
    if unclear:
        turn.stop("\n".join([*unclear, turn.say("nothing_proposed")]))
    return [one for one in found if isinstance(one, FoundNode)]


def asked_node(turn: RulesTurn, slot: str = "node") -> tuple[FoundNode, str] | None:
    """Return the node of a question and the remark that its name was only nearly right, if so.

    None where the words name no node; asks back where several fit.
    """
    mention = turn.request.mention(slot)
    if mention is None:
        return None
    (found,) = find_nodes(turn, [mention], sure=False)
    if isinstance(found, FoundNode):
        return found, guess_remark(turn, found, mention)
    if found.fits_several or (mention.is_short and found.candidates):
        turn.stop(ask_which(turn, found))
    return None


def guess_remark(turn: RulesTurn, found: FoundNode, mention: EntityMention) -> str:
    if not found.is_guess:
        return ""
    return turn.say("guessed", name=code(mention.text), node=cite_row(found.row, with_type=False)) + "\n"


def ask_which(turn: RulesTurn, unclear: Unclear) -> str:
    """Return the question which node is meant, with the candidates."""
    name = code(unclear.mention.text)
    if not unclear.candidates:
        return turn.say("no_such_node", name=name)
    text = turn.say("several_nodes" if unclear.fits_several else "near_nodes", name=name)
    return f"{text}\n{bullets([cite_row(row) for row in unclear.candidates])}"


def _referent(turn: RulesTurn, mention: EntityMention, sure: bool) -> EntityMention:
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
) -> FoundNode | Unclear | None:
    unique = {key_of(row): row for row in rows if row.get("_key") is not None}
    words = () if exactly else ("_key", "name", "type")
    named = _fitting(mention, unique, ("_key", "name"), words=words, stems=stems)
    if len(named) > 1:
        named = [row for row in named if row.get("type") not in NOTES] or named
    if len(named) > 1:
        return Unclear(mention=mention, candidates=tuple(named[:10]), fits_several=True)
    return FoundNode(row=named[0]) if named else None


def _near_keys(answer: ToolTables, mention: EntityMention) -> list[str]:
    """Return the keys that the tool suggests, which may or may not exist."""
    opening = f"no node {mention.text[:200]!r} in this graph; did you mean: "
    line = next((note for note in answer.notes if opening in note), "")
    parts = line.partition(opening)[2].split("; ")
    return [key for part in parts if (key := part.partition(" (")[0].strip()) and len(key) <= 200][:MAX_NEAR]


def _nearly(mention: EntityMention, near: list[Row], rows: Sequence[Row], sure: bool) -> FoundNode | Unclear:
    low = letters(mention.text)
    if len(near) == 1 and not sure:
        names = filter(None, (letters(key_of(near[0])), letters(cell(near[0].get("name")))))
        if any(difflib.SequenceMatcher(None, low, name).ratio() >= 0.75 for name in names):
            return FoundNode(row=near[0], is_guess=True)
    if not near:
        wanted = words_said(mention.text)
        near = [row for row in rows if len(wanted & _words_of(row)) * 2 >= max(1, len(wanted))][:3]
    return Unclear(mention=mention, candidates=tuple({key_of(row): row for row in near}.values()))


# How a name fits


def _fitting(
    mention: EntityMention,
    rows: Mapping[str, Row],
    names: Sequence[str],
    *,
    spelt: Iterable[str] = (),
    words: Sequence[str] = (),
    stems: bool = True,
) -> list[Row]:
    """Return the row of this key, else those with this name, else those that hold all the words.

    `names` and `words` are the columns that are looked at, `spelt` other ways to spell the name;
    `stems`: words may end otherwise.
    """
    if mention.text in rows:
        return [rows[mention.text]]
    alike = {letters(text) for text in (mention.text, *spelt)} - {""}
    named = [row for row in rows.values() if alike & {letters(cell(row.get(name))) for name in names}]
    if named or not words:
        return named
    wanted = words_said(mention.text) if stems else _whole_words(mention.text)
    return [row for row in rows.values() if wanted and wanted <= _words_of(row, words, stems=stems)]


def _english(word: str) -> str:
    """Return a French word for a common type in English; types are named in English."""
    return grammar("fr").english.get(word, word)


def words_said(text: str) -> set[str]:
    """Return the stems of what a person said."""
    return set(tokenize(" ".join(map(_english, fold(text).split()))))


def _words_of(row: Row, columns: Sequence[str] = ("_key", "name", "type"), *, stems: bool = True) -> set[str]:
    text = " ".join(cell(row.get(name)) for name in columns)
    return set(tokenize(text)) | set(tokenize(fold(text))) if stems else _whole_words(text)


def _whole_words(text: str) -> set[str]:
    return set(map(_english, _WORD.findall(fold(_HUMP.sub(" ", text)))))


# Types and sheets


def read_types(turn: RulesTurn) -> tuple[Row, ...]:
    """Return the types of the workspace, the most used first."""
    return turn.read("list_available_node_types", maxResults=100).rows("types")


def overview_and_types(turn: RulesTurn) -> tuple[ToolTables, tuple[Row, ...]]:
    """Return the overview and the types, asked at once."""
    overview, types = turn.together(lambda: turn.read("read_graph_overview"), lambda: read_types(turn))
    return turn.checked(overview), types


def find_type(mention: EntityMention, rows: Sequence[Row]) -> Row | list[Row]:
    """Return the type that is meant, or those that may be (none: nothing is near)."""
    wanted, names = fold(mention.text), ("type", "name")
    spelt = [_english(wanted), _english(wanted.removesuffix("s"))]
    named = _fitting(mention, {cell(row.get("type")): row for row in rows}, names, spelt=spelt, words=names)
    if named:
        return named[0] if len(named) == 1 else named[:10]
    texts = {letters(cell(row.get(name))): row for row in rows for name in names}
    near = difflib.get_close_matches(letters(mention.text), list(texts), n=MAX_NEAR, cutoff=0.6)
    return list({cell(texts[text].get("type")): texts[text] for text in near}.values())


def the_type(turn: RulesTurn, mention: EntityMention | None, rows: Sequence[Row]) -> Row:
    """Return the type of a mention; ends the handler with a question back."""
    found: Row | list[Row] = find_type(mention, rows) if mention is not None else []
    if not isinstance(found, list):
        return found
    text = "near_types" if found else "no_such_type" if mention is not None else "which_type"
    asked = turn.say(text, name=code(mention.text) if mention else "")
    return turn.stop(f"{asked}\n{type_lines(found or rows[:15])}")


def type_lines(rows: Sequence[Row]) -> str:
    """Return the types, a line each."""
    lines: list[str] = []
    for row in rows:
        name, description = cell(row.get("name")), cell(row.get("description"))
        shown = code(cell(row.get("type")))
        if name and letters(name) != letters(cell(row.get("type"))):
            shown += f" {plain(name, 80)}"
        lines.append(f"{shown}: {plain(description, 160)}" if description else shown)
    return bullets(lines)


def the_sheet(turn: RulesTurn, mention: EntityMention, overview: ToolTables) -> str:
    """Return the label of a sheet, as `0 main`; ends the handler with a question back."""
    rows: dict[str, Row] = {}
    for row in overview.rows("sheets"):
        label = cell(row.get("sheet"))
        rows[label] = dict(zip(("label", "id", "name"), (label, *label.split(" ", 1)), strict=False))
    named = _fitting(mention, rows, ("label", "id", "name"))
    wanted = letters(mention.text)
    named = named or [row for label, row in rows.items() if wanted and wanted in letters(label)]
    if len(named) == 1:
        return cell(named[0].get("label"))
    shown = [plain(cell(row.get("label")), 80) for row in named or rows.values()]
    return turn.stop(f"{turn.say('no_such_sheet', name=code(mention.text))}\n{bullets(shown[:MAX_LISTED])}")


# Handles


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """A connection point."""

    id: str
    direction: str
    accept: str = "any"
    label: str = ""


def handles_of_node(detail: ToolTables) -> list[Handle]:
    """Return the handles that `read_node_detail` shows."""
    columns = ("handle", "direction", "accept", "display")
    cells = [[cell(row.get(column)) for column in columns] for row in detail.rows("handles")]
    return [Handle(id=i, direction=d, accept=accept or "any", label=label) for i, d, accept, label in cells]


def handles_of_type(config: ToolTables) -> list[Handle]:
    """Return the handles that `read_node_config` shows, as `in L:0; out R:0 success,R:1<number>`."""
    sides = re.findall(r"(?:^|; )(in|out) ((?:'(?:[^']|'')*'|[^;'])*)", config.text_of("handles"))
    points = [(direction, point) for direction, part in sides for point in _POINT.finditer(part)]
    return [
        Handle(
            id=p["id"], direction=direction, accept=p["accept"] or "any", label=(p["label"] or "").strip("'")
        )
        for direction, p in points
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
