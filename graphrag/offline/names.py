"""Finds the node, type or sheet that a person names; where it is not clear which, it says so."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from datasources.text import tokenize
from graphrag.offline.desk import Call, CannotGoOn, Desk
from graphrag.offline.readings import Reading, Row, cell
from graphrag.offline.shown import bullets, cite_row, code
from graphrag.offline.wording import Mention, fold, letters

MAX_NEAR = 5
_PRONOUN = re.compile(
    r"(?:it|this|that|this one|that one|him|them|one|ca|cela|ceci|celui-ci|celui-la|celle-ci|lui|elle|il|le"
    r"|la|y)"
)
ENGLISH = {
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
        wanted = words_said(mention.text) if stems else _whole_words(mention.text)
        words_found = words_of if stems else _whole_words_of
        named = [row for row in unique.values() if wanted and wanted <= words_found(row)]
    if len(named) > 1:
        return Unclear(mention=mention, candidates=tuple(named[:10]), several=True)
    return Found(row=named[0]) if named else None


def words_said(text: str) -> set[str]:
    """Return the stems of what a person said; words for common types in French become English."""
    return set(tokenize(" ".join(ENGLISH.get(word, word) for word in fold(text).split())))


def words_of(row: Row) -> set[str]:
    """Return the stems of what a row is called."""
    text = " ".join(cell(row.get(name)) for name in ("_key", "name", "type"))
    return set(tokenize(text)) | set(tokenize(fold(text)))


def _whole_words(text: str) -> set[str]:
    found: list[str] = _WORD.findall(fold(_HUMP.sub(" ", text)))
    return {ENGLISH.get(word, word) for word in found}


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
        wanted = words_said(mention.text)
        near = [row for row in rows if len(wanted & words_of(row)) * 2 >= max(1, len(wanted))][:3]
    elif len(near) == 1 and not sure and _is_alike(mention.text, near[0]):
        return Found(row=near[0], guessed=True)
    unique = {cell(row.get("_key")): row for row in near}
    return Unclear(mention=mention, candidates=tuple(unique.values()))


def _is_alike(text: str, row: Row) -> bool:
    low = letters(text)
    names = (letters(cell(row.get("_key"))), letters(cell(row.get("name"))))
    return any(difflib.SequenceMatcher(None, low, name).ratio() >= 0.75 for name in names if name)
