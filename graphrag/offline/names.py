"""Finds the node, type or sheet that a person names; where it is not clear which, it says so."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from datasources.text import tokenize
from graphrag.offline.desk import Call, CannotGoOn, Desk
from graphrag.offline.readings import Reading, Row, cell
from graphrag.offline.shown import bullets, cite_row, code, plain
from graphrag.offline.wording import Mention, fold, letters

MAX_NEAR = 5
_PRONOUN = re.compile(
    r"(?:it|this|that|this one|that one|him|them|one|ca|cela|ceci|celui-ci|celui-la|celle-ci|lui|elle|il|le"
    r"|la|y)"
)
_ENGLISH = {
    "filtre": "filter", "journal": "log", "debut": "start", "depart": "start", "demarrage": "start",
    "retour": "return", "entree": "entry", "requete": "request", "erreur": "error", "fonction": "function",
    "delai": "delay", "gabarit": "template", "modele": "model", "courriel": "email", "aiguillage": "switch",
    "transformation": "transform", "formulaire": "form", "tableau": "table", "agent": "agent",
}  # fmt: skip
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")
_DID_YOU_MEAN = "; did you mean: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A node that was meant. `guessed`: nothing is called so, but this one nearly is."""

    row: Row
    guessed: bool = False

    @property
    def key(self) -> str:
        return cell(self.row.get("_key"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclear:
    """No one node was meant for sure. `several`: each of the candidates fits the name."""

    mention: Mention
    candidates: tuple[Row, ...]
    several: bool = False


def find_nodes(desk: Desk, mentions: Sequence[Mention], *, sure: bool) -> list[Found | Unclear]:
    """Return the node of each mention. `sure`: look through the graph even if the context has one.

    Raises: Needs, CannotGoOn.
    """
    named = [_referent(desk, mention, sure) for mention in mentions]
    if not sure:
        context = list(desk.conversation.context.nodes)
        exact = [_choose(mention, context, exactly=True) for mention in named]
        if all(isinstance(choice, Found) for choice in exact):
            return [choice for choice in exact if choice is not None]
    texts = list(dict.fromkeys(mention.text for mention in named))
    answers = desk.read_all(
        Call(name="read_subgraph", arguments={"keys": texts[:30], "fields": ["handles", "position"]}),
        *(Call(name="search_nodes", arguments={"query": text, "limit": 10}) for text in texts[:9]),
    )
    rows = [row for answer in answers for name in ("nodes", "found") for row in answer.rows(name)]
    chosen = [_choose(mention, rows, stems=not sure) for mention in named]
    near = {i: _near_keys(answers[0], named[i]) for i, choice in enumerate(chosen) if choice is None}
    known = {cell(row.get("_key")): row for row in rows} | desk.seen_nodes()
    unread = list(dict.fromkeys(key for keys in near.values() for key in keys if key not in known))
    if unread:  # what an error names is not believed before it was read
        read = desk.read("read_subgraph", keys=unread[:30], fields=["handles", "position"])
        known |= {cell(row.get("_key")): row for row in read.rows("nodes")}
    return [
        choice
        if choice is not None
        else _nearly(named[i], [known[k] for k in near[i] if k in known], rows, sure)
        for i, choice in enumerate(chosen)
    ]


def the_nodes(desk: Desk, mentions: Sequence[Mention]) -> list[Found]:
    """Return the node of each mention for a change. Raises: Needs; CannotGoOn with a question back."""
    found = find_nodes(desk, mentions, sure=True)
    unclear = [one for one in found if isinstance(one, Unclear)]
    if unclear:
        raise CannotGoOn("\n".join([*(which(desk, one) for one in unclear), desk.say("nothing_proposed")]))
    return [one for one in found if isinstance(one, Found)]


def which(desk: Desk, unclear: Unclear) -> str:
    """Return the question which node is meant, with the candidates."""
    name = code(unclear.mention.text)
    if not unclear.candidates:
        return desk.say("no_such_node", name=name)
    phrase = "several_nodes" if unclear.several else "near_nodes"
    return f"{desk.say(phrase, name=name)}\n{bullets([cite_row(row) for row in unclear.candidates])}"


def _referent(desk: Desk, mention: Mention, sure: bool) -> Mention:
    """Return what `it` means: the one node the last answer cited (a question takes the first of several)."""
    if code(mention.text) in desk.meant:
        return Mention(text=desk.meant[code(mention.text)], quoted=True)
    if mention.quoted or not _PRONOUN.fullmatch(fold(mention.text)):
        return mention
    cited = list(desk.conversation.last_cited)
    if not cited or (sure and len(cited) > 1):
        raise CannotGoOn(desk.say("what_is_it", name=code(mention.text)))
    return Mention(text=cited[0], quoted=True)


def _choose(
    mention: Mention, rows: Iterable[Row], *, exactly: bool = False, stems: bool = True
) -> Found | Unclear | None:
    """Return the only node of a key, of a name or of all the words; `stems`: words may end otherwise."""
    unique = {cell(row.get("_key")): row for row in rows if row.get("_key") is not None}
    if mention.text in unique:
        return Found(row=unique[mention.text])
    low = letters(mention.text)
    named = [
        row for key, row in unique.items() if low and low in (letters(key), letters(cell(row.get("name"))))
    ]
    if not named and not exactly:
        wanted = _words(mention.text) if stems else _whole_words(mention.text)
        words_of = _words_of if stems else _whole_words_of
        named = [row for row in unique.values() if wanted and wanted <= words_of(row)]
    if len(named) > 1:
        return Unclear(mention=mention, candidates=tuple(named[:10]), several=True)
    return Found(row=named[0]) if named else None


def _words(text: str) -> set[str]:
    return set(tokenize(" ".join(_ENGLISH.get(word, word) for word in fold(text).split())))


def _words_of(row: Row) -> set[str]:
    text = " ".join(cell(row.get(name)) for name in ("_key", "name", "type"))
    return set(tokenize(text)) | set(tokenize(fold(text)))


def _whole_words(text: str) -> set[str]:
    found: list[str] = _WORD.findall(fold(_HUMP.sub(" ", text)))
    return {_ENGLISH.get(word, word) for word in found}


def _whole_words_of(row: Row) -> set[str]:
    return _whole_words(" ".join(cell(row.get(name)) for name in ("_key", "name", "type")))


def _near_keys(answer: Reading, mention: Mention) -> list[str]:
    """Return what the tool took for near, as keys that may or may not exist."""
    opening = f"no node {mention.text[:200]!r} in this graph{_DID_YOU_MEAN}"
    line = next((note for note in answer.notes if opening in note), "")
    if not line:
        return []
    parts = line.partition(opening)[2].split("; ")
    return [key for part in parts if (key := part.partition(" (")[0].strip()) and len(key) <= 200][:MAX_NEAR]


def _nearly(mention: Mention, near: list[Row], rows: Sequence[Row], sure: bool) -> Found | Unclear:
    if not near:
        wanted = _words(mention.text)
        near = [row for row in rows if len(wanted & _words_of(row)) * 2 >= max(1, len(wanted))][:3]
    elif len(near) == 1 and not sure and _is_alike(mention.text, near[0]):
        return Found(row=near[0], guessed=True)
    unique = {cell(row.get("_key")): row for row in near}
    return Unclear(mention=mention, candidates=tuple(unique.values()))


def _is_alike(text: str, row: Row) -> bool:
    low = letters(text)
    names = (letters(cell(row.get("_key"))), letters(cell(row.get("name"))))
    return any(difflib.SequenceMatcher(None, low, name).ratio() >= 0.75 for name in names if name)


def find_type(mention: Mention, rows: Sequence[Row]) -> Row | list[Row]:
    """Return the type that is meant, or those that may be (none: nothing is near)."""
    wanted, spelt = fold(mention.text), {letters(mention.text)}
    spelt |= {letters(_ENGLISH.get(word, word)) for word in (wanted, wanted.removesuffix("s"))}
    named = [row for row in rows if mention.text == cell(row.get("type"))]
    named = named or [
        row for row in rows if spelt & {letters(cell(row.get("type"))), letters(cell(row.get("name")))}
    ]
    if not named:
        words = _words(mention.text)
        of_type = [(row, _words_of({"type": row.get("type"), "name": row.get("name")})) for row in rows]
        named = [row for row, own in of_type if words and words <= own]
    if len(named) == 1:
        return named[0]
    if named:
        return named[:10]
    texts = {letters(cell(row.get(name))): row for row in rows for name in ("type", "name")}
    near = difflib.get_close_matches(letters(mention.text), list(texts), n=MAX_NEAR, cutoff=0.6)
    return list({cell(texts[text].get("type")): texts[text] for text in near}.values())


def the_type(desk: Desk, mention: Mention | None, rows: Sequence[Row]) -> Row:
    """Return the type of a mention. Raises: CannotGoOn with a question back."""
    found: Row | list[Row] = find_type(mention, rows) if mention is not None else []
    if not isinstance(found, list):
        return found
    name = code(mention.text) if mention else ""
    if found:
        ask = f"{desk.say('near_types', name=name)}\n{type_lines(found)}"
    elif mention is not None:
        ask = f"{desk.say('no_such_type', name=name)}\n{type_lines(rows[:15])}"
    else:
        ask = f"{desk.say('which_type')}\n{type_lines(rows[:15])}"
    raise CannotGoOn(ask)


def type_lines(rows: Sequence[Row]) -> str:
    return bullets([type_line(row) for row in rows])


def type_line(row: Row) -> str:
    name, description = cell(row.get("name")), cell(row.get("description"))
    shown = code(cell(row.get("type")))
    if name and letters(name) != letters(cell(row.get("type"))):
        shown += f" {plain(name, 80)}"
    return f"{shown}: {plain(description, 160)}" if description else shown


def the_sheet(desk: Desk, mention: Mention, overview: Reading) -> str:
    """Return the label of a sheet, as `0 main`. Raises: CannotGoOn with a question back."""
    labels = [cell(row.get("sheet")) for row in overview.rows("sheets")]
    wanted = letters(mention.text)
    for label in labels:
        number, _, name = label.partition(" ")
        if mention.text in (label, number, name) or (wanted and wanted in (letters(name), letters(label))):
            return label
    near = [label for label in labels if wanted and wanted in letters(label)]
    if len(near) == 1:
        return near[0]
    shown = bullets([plain(label, 80) for label in (near or labels)[:20]])
    raise CannotGoOn(f"{desk.say('no_such_sheet', name=code(mention.text))}\n{shown}")


def sheet_row(overview: Reading, label: str) -> Row:
    """Return the row of a sheet in the overview."""
    none: Row = {}
    return next((row for row in overview.rows("sheets") if cell(row.get("sheet")) == label), none)


def read_types(desk: Desk) -> tuple[Row, ...]:
    """Return the types of the workspace, the most used first. Raises: Needs, CannotGoOn."""
    return desk.read("list_available_node_types", limit=100).rows("types")


def overview_and_types(desk: Desk) -> tuple[Reading, tuple[Row, ...]]:
    """Return the overview and the types, asked at once. Raises: Needs, CannotGoOn."""
    arguments: dict[str, Any] = {"limit": 100}
    overview, types = desk.read_all(
        Call(name="read_graph_overview", arguments={}),
        Call(name="list_available_node_types", arguments=arguments),
    )
    return overview, types.rows("types")
