"""Reads commands that create: a node of some type, named, placed after, before or between others."""

from __future__ import annotations

import re

from graphrag.offline.forms import EDGE, GRAPH, NODE, QUOTE, SHEET, Spoken
from graphrag.offline.intents import Connect, CreateNode, Help, Incomplete, Intent
from graphrag.offline.wording import Mention, Wording

_CREATE = re.compile(
    r"(?:add|create|insert|make|put|append|ajoute[rz]?|cree[rz]?|creer|insere[rz]?|mets|mettre|mettez|new|nouveau|nouvelle"
    r"|place[rz]?) "
)
_NEGATED = re.compile(r"(?:pas|plus|jamais|rien|aucune?|nothing|no|not) ")
_CLAUSE = re.compile(
    r"(?:^|(?<=[ ,\ue000-\uf8ff]))(?:"
    r"(?P<between>in between|between|entre)"
    r"|(?P<after>(?:right |just |juste )?(?:after|behind|following|downstream of|apres|derriere|a la suite"
    r" de|en aval de))"
    r"|(?P<before>(?:right |just |juste )?(?:before|in front of|ahead of|upstream of|avant|devant|en amont"
    r" de))"
    r"|(?P<named>(?:and )?(?:named|called|titled|labell?ed|nommee?|appelee?|intitulee?|du nom de"
    r"|(?:and )?(?:name|call) it|with (?:the )?(?:name|title|label)|avec (?:le|pour) (?:nom|titre)))"
    r"|(?P<type>of (?:the )?type|with (?:the )?type|de type|du type)"
    rf"|(?P<sheet>(?:on|in|to|onto|sur|dans|a) (?:the |la )?{SHEET})"
    r"|(?P<ends>from|depuis|de|du)"
    r")(?= |$|[\ue000-\uf8ff])"
)
_JOINT = re.compile(r"(?: (?:and|et|puis|then)|[ ,])+$")
_PAIR = re.compile(r" (?P<a>.+?)(?:,? (?:and|et|to|a|au|vers) )(?P<b>.+)")
_ARTICLE = re.compile(
    r"(?:(?:an?|the|one|some|another|new|une?|le|la|les|des|l'|nouve(?:au|l|lle)|autre)(?: |(?<=')))*"
)
_NODE_NOUN = re.compile(rf"(?:\b{NODE}\b|\bde\b|\bd')")
_EDGE_HEAD = re.compile(rf"{EDGE}(?: .*)?")
_OTHER_HEAD = re.compile(rf"(?:{SHEET}|{GRAPH}|(?:node )?types?(?: de noeud)?)(?: .*)?")
_QUOTES = re.compile(QUOTE)

Spans = dict[str, tuple[int, int]]


def read_creation(said: Spoken) -> Intent | None:
    """Return what is to be created, or None when the message asks for no such thing."""
    wording = said.wording
    verb = _CREATE.match(wording.folded, said.start, said.end)
    if verb is None or _NEGATED.match(wording.folded, verb.end(), said.end):
        return None
    spans = _clauses(wording, verb.end(), said.end)
    head_start = verb.end()
    article = _ARTICLE.match(wording.folded, head_start, spans["head"][1])
    if article is not None:
        head_start = article.end()
    head = wording.folded[head_start : spans["head"][1]].strip()
    if _EDGE_HEAD.fullmatch(head):
        return _edge(wording, spans)
    if _OTHER_HEAD.fullmatch(head):
        return Help()
    return _node(wording, (head_start, spans["head"][1]), spans)


def _clauses(wording: Wording, start: int, end: int) -> Spans:
    """Return where each clause stands, by its kind; `head` is what comes before the first.

    `from X to Y` belongs to an edge alone: elsewhere its words are part of what they stand in.
    """
    found = list(_CLAUSE.finditer(wording.folded, start, end))
    edge = re.compile(rf"{_ARTICLE.pattern}{EDGE}\b").match(wording.folded, start, end)
    if edge is None:
        found = [clause for clause in found if clause.lastgroup != "ends"]
    # `create a sheet` holds no clause: what is to be made comes first.
    found = [clause for clause in found if clause.lastgroup != "sheet" or clause.start() > start]
    stops = [clause.start() for clause in found[1:]] + [end]
    spans: Spans = {"head": (start, found[0].start() if found else end)}
    for clause, stop in zip(found, stops, strict=False):
        joint = _JOINT.search(wording.folded, clause.end(), stop) if stop != end else None
        spans.setdefault(clause.lastgroup or "", (clause.end(), joint.start() if joint else stop))
    return spans


def _edge(wording: Wording, spans: Spans) -> Intent:
    span = spans.get("between") or spans.get("ends")
    ends = _pair(wording, span) if span else None
    return Connect(source=ends[0], target=ends[1]) if ends else Incomplete(kind="connect")


def _node(wording: Wording, head: tuple[int, int], spans: Spans) -> Intent | None:
    name = _text(wording, spans.get("named"))
    quotes = list(_QUOTES.finditer(wording.folded, *head))
    if quotes and name is None:  # add a filter "Only active"
        name = wording.text(quotes[-1].start(), quotes[-1].end())
        head = (head[0], quotes[-1].start())
    kind = _mention(wording, spans.get("type"))
    if kind is None:
        words = _NODE_NOUN.sub(" ", wording.folded[head[0] : head[1]])
        kind = _mention(wording, head) if words.strip(" ,") else None
    after, before = _mention(wording, spans.get("after")), _mention(wording, spans.get("before"))
    if "between" in spans:
        ends = _pair(wording, spans["between"])
        if ends is None:
            return Incomplete(kind="create")
        after, before = ends
    return CreateNode(
        type=kind, name=name, after=after, before=before, sheet=_mention(wording, spans.get("sheet"))
    )


def _pair(wording: Wording, span: tuple[int, int]) -> tuple[Mention, Mention] | None:
    found = _PAIR.fullmatch(wording.folded, *span)
    if found is None:
        return None
    first, second = wording.mention(found, "a"), wording.mention(found, "b")
    return (first, second) if first and second else None


def _mention(wording: Wording, span: tuple[int, int] | None) -> Mention | None:
    found = re.compile(r"(?P<n>.*)").fullmatch(wording.folded, *span) if span else None
    return wording.mention(found, "n") if found else None


def _text(wording: Wording, span: tuple[int, int] | None) -> str | None:
    return (wording.text(*span) or None) if span else None
