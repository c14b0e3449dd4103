"""Reads questions, English and French, as what is to be looked up. What fits no form is searched for."""

from __future__ import annotations

import re

from graphrag.offline.commands import read_command
from graphrag.offline.forms import EDGE, GRAPH, NODE, SHEET, Form, Match, Spoken, first_fit, form, spoken
from graphrag.offline.intents import (
    Count,
    DescribeGraph,
    DescribeType,
    Help,
    Intent,
    ListNodes,
    ListSheets,
    ListTypes,
    Question,
    Search,
    Unconnected,
)
from graphrag.offline.node_questions import (
    AROUND_FORMS,
    DESCRIBE_FORMS,
    EXPLAIN,
    OWN_FORMS,
    PATH_FORMS,
    SHOW,
    WHAT_IS,
)
from graphrag.offline.wording import MAX_CHARS, read_wording

MAX_QUERY = 900
MAX_TYPE_WORDS = 4

_WHICH = r"(?:which|what|what are the|quel(?:le)?s?(?: sont les?)?)"
_LIST = (
    rf"(?:{SHOW}|which are|what are|enumerate|enumere[rz]?)(?: (?:all|every|tous|toutes))?"
    r"(?: (?:of )?(?:the|les|le|la))?"
)
_TYPES = r"(?:node )?(?:types?|kinds?|sorts?|sortes?)(?: (?:of|de) (?:nodes?|noeuds?))?"
_GENERIC = re.compile(
    rf"(?:the |les |des |d')?(?:(?P<nodes>{NODE})|(?P<edges>{EDGE})|(?P<types>{_TYPES})|(?P<sheets>{SHEET}))"
)
_EXIST = (
    r"(?: (?:are there|is there|exist|are|there are|do (?:we|i|you) have|does (?:it|this \w+|the \w+) have"
    r"|can i use|are available|existent|y a[- ]t[- ]il|il y a|sont disponibles|a[- ]t[- ]on|contient[- ]il"
    rf"|compte|contient|has|in total|au total|here|ici|(?:in|dans|of|de) (?:(?:this|the|ce|le|mon|my)"
    rf" )?{GRAPH}))*"
)
_TYPED = r"(?:of|with|de|du|avec)(?: (?:the|le))? ?types? (?P<type>.+?)"
_SHEETED = rf"(?:on|in|of|sur|dans|de)(?: (?:the|la))? ?{SHEET} (?P<sheet>.+?)"
_UNLINKED = (
    r"(?:unconnected|disconnected|isolated|orphan(?:ed|s)?|unlinked|unwired|loose|lonely|stray|deconnectee?s?"
    r"|isolee?s?|orphelin(?:e)?s?|(?:not|non|pas) (?:connected|linked|wired|reliee?s?|connectee?s?|relies)"
    rf"|(?:without|with no|have no|has no|having no|sans|n'ont (?:pas|aucune?))(?: any| aucune?| de)?"
    rf" (?:d')?{EDGE})"
)
_CHANGING = (
    r"(?:add|create|delete|remove|connect|rename|set|change|move|ajouter|creer|supprimer|relier|connecter"
    r"|renommer|modifier|deplacer)"
)


def read_question(said: Spoken) -> Question:
    """Return what is asked; what fits no form becomes a search."""
    intent = first_fit(said, _FORMS)
    if isinstance(intent, Question):
        return intent
    whole = said.wording.original.strip()
    return Search(query=whole[:MAX_QUERY]) if whole else Help()


def asks_about_graph(message: str) -> bool:
    """Return whether a message asks about the graph as a whole: what it is, what it does."""
    wording = read_wording(message)
    if len(wording.folded) > MAX_CHARS:
        return False
    said = spoken(wording)
    return read_command(said) is None and isinstance(first_fit(said, _FORMS), DescribeGraph)


def _count(match: Match) -> Intent | None:
    sheet = match.mention("sheet")
    generic = _GENERIC.fullmatch(match.word("what").strip())
    if generic is None:
        kind = match.mention("what")
        return Count(what="nodes", type=kind, sheet=sheet) if _short(match) else None
    kind = match.mention("type")
    if generic["edges"]:
        return Count(what="edges")
    if generic["types"]:
        return Count(what="types")
    return Count(what="sheets") if generic["sheets"] else Count(what="nodes", type=kind, sheet=sheet)


def _listing(match: Match) -> Intent | None:
    kind, sheet = match.mention("type"), match.mention("sheet")
    generic = _GENERIC.fullmatch(match.word("what").strip())
    if generic is None:
        return ListNodes(type=match.mention("what"), sheet=sheet) if _short(match) else None
    if generic["types"]:
        return ListTypes()
    if generic["sheets"]:
        return ListSheets()
    return ListNodes(type=kind, sheet=sheet) if generic["nodes"] else DescribeGraph()


def _short(match: Match) -> bool:
    named = match.mention("what")
    return named is not None and len(named.text.split()) <= MAX_TYPE_WORDS


def _type(match: Match) -> Intent | None:
    kind = match.mention("n")
    return DescribeType(type=kind) if kind else None


def _search(match: Match) -> Intent | None:
    query = match.text("q")
    return Search(query=query[:MAX_QUERY]) if query else None


_HELP_FORMS: list[Form] = [
    form(
        r"(?:help|aide|aidez-moi|aide-moi|\?|what can you do|what can i (?:ask|do)|que (?:peux|sais)[- ]tu"
        r" faire"
        r"|que pouvez[- ]vous faire|hi|hello|hey|bonjour|salut|)",
        lambda _: Help(),
    ),
    form(
        rf"(?:how (?:do|can|to)|comment)(?: (?:i|you|we|je|on))?(?: peut-on)? {_CHANGING}\b.*",
        lambda _: Help(),
    ),
    form(
        r"(?:do not|don't|never|ne|n')(?: |(?<='))(?!y\b).*",
        lambda _: Help(topic="nothing"),
    ),
]
_GRAPH_FORMS: list[Form] = [
    form(
        rf"(?:{SHOW} )?(?:an? |une? |the |la )?(?:overview|summary|vue d'ensemble|resume|apercu)"
        r"(?: (?:of|de|du) .*)?",
        lambda _: DescribeGraph(),
    ),
    form(
        rf"(?:what|which|combien|quels?|quelles?|how many|are there|y a[- ]t[- ]il|{_LIST}|list).*"
        rf"(?:{_UNLINKED} (?:any )?(?:{NODE})|(?:{NODE})\b.*{_UNLINKED}).*",
        lambda _: Unconnected(),
    ),
    form(rf"(?:the |les )?{NODE} {_UNLINKED}|{_UNLINKED} {NODE}", lambda _: Unconnected()),
    form(
        r"de quoi (?:parle|traite|s'agit[- ]il|est fait)\b.*|(?:what is it|c'est) (?:all )?(?:about|quoi)",
        lambda _: DescribeGraph(),
    ),
    form(rf"(?:what(?: is|'s)|which|quels?|quelles?|qu'est-ce qui) .*{_UNLINKED}", lambda _: Unconnected()),
    form(
        rf"(?:how many |combien (?:de |d'|y a[- ]t[- ]il (?:de |d'))|number of |nombre (?:de "
        rf"|d'))(?P<what>.+?)"
        rf"(?: {_TYPED})?(?: {_SHEETED})?{_EXIST}",
        _count,
    ),
]
_LIST_FORMS: list[Form] = [
    form(
        rf"(?:{_LIST} |{_WHICH} )(?:available |different |disponibles )?(?:node )?types?(?: de"
        rf" noeuds?)?{_EXIST}",
        lambda _: ListTypes(),
    ),
    form(rf"(?:{_LIST} |{_WHICH} ){SHEET}{_EXIST}", lambda _: ListSheets()),
    form(
        rf"(?:{EXPLAIN}|{WHAT_IS}|{SHOW}) (?:(?:the|le|du|an?|une?) )?(?:node )?type (?:de noeud )?(?P<n>.+?)"
        r"(?: do| for| mean)?",
        _type,
    ),
    form(rf"(?:{EXPLAIN}|{WHAT_IS}) (?:the |le )?(?P<n>.+?) (?:node )?type", _type),
    form(
        rf"(?:{_LIST}|{_WHICH}|list|liste[rz]?|enumere[rz]?)(?: (?:all|the|les|tous|toutes))*"
        rf" (?P<what>{NODE}|{EDGE})(?: (?:are|is|that are|sont|est|qui sont|avec))?(?: {_TYPED})?(?:"
        rf" {_SHEETED})?"
        rf"{_EXIST}",
        _listing,
    ),
    form(
        r"(?:list|liste[rz]?|enumere[rz]?|enumerate|show all|montre tous)(?: (?:all|the|les|tous|toutes|me"
        r"|every))*"
        rf" (?P<what>.+?)(?: {NODE})?(?: {_SHEETED})?{_EXIST}",
        _listing,
    ),
    form(
        rf"{_WHICH} (?P<what>[\w ./@:-]{{1,60}}?) (?:are there|exist|y a[- ]t[- ]il|existent)(?:"
        rf" {_SHEETED})?",
        _listing,
    ),
]
_SEARCH_FORMS: list[Form] = [
    form(
        r"(?:find|search(?: for)?|look for|cherche[rz]?|trouve[rz]?|recherche[rz]?|locate)"
        r"(?: (?:the|le|la|les|all))? (?P<q>.+)",
        _search,
    ),
    form(
        r"(?:where|ou|in which|dans quel|which node|quel noeud|quels noeuds|which nodes)\b.*",
        lambda match: Search(query=match.wording.original.strip()[:MAX_QUERY]),
    ),
]
_FORMS: list[Form] = [
    *_HELP_FORMS,
    *_GRAPH_FORMS,
    *PATH_FORMS,
    *OWN_FORMS,
    *_LIST_FORMS,
    *AROUND_FORMS,
    *_SEARCH_FORMS,
    *DESCRIBE_FORMS,
]
