"""Reads questions, English and French, as what is to be looked up. What fits no form is searched for."""

from __future__ import annotations

import re

from graphrag.offline.forms import EDGE, GRAPH, NODE, QUOTE, SHEET, Form, Match, Spoken, first_fit, form
from graphrag.offline.intents import (
    Count,
    DescribeGraph,
    DescribeNode,
    DescribeType,
    FindPath,
    Help,
    Intent,
    ListNodes,
    ListSheets,
    ListTypes,
    Neighbours,
    Question,
    Search,
    ShowCode,
    ShowField,
    Unconnected,
)

MAX_DEPTH = 3
MAX_QUERY = 900

_THIS = r"(?:this|the|that|my|our|ce|cet|le|mon|notre|du|d'un)"
_SHOW = (
    r"(?:(?:tell|show|give|display|describe|list|print|read|open)(?: me)?(?: about)?"
    r"|(?:montre|donne|affiche|decris|liste|dis|ouvre|lis)(?:z|r|s)?(?:[- ]moi|[- ]nous)?)"
)
_EXPLAIN = (
    r"(?:describe|explain|summari[sz]e|present|show(?: me)?|tell me (?:more )?about|what about|details (?:of|on|about)"
    r"|(?:decri(?:s|re|vez)|expliqu(?:e[rz]?)|resume[rz]?|presente[rz]?|montre[rz]?|detaille[rz]?)(?:[- ]moi)?"
    r"|parle[rz]?(?:[- ]moi)? (?:de|d')|details? (?:de|du|sur)|et)"
)
_WHAT_IS = (
    r"(?:what(?:'s| is| are| does| do)|who is|c'est quoi|qu'est[- ]ce (?:que c'est que|que|qu')|que fait|que font"
    r"|quel(?:le)?s? (?:est|sont)|a quoi sert|a quoi servent|qui est)"
)
_WHICH = r"(?:which|what|what are the|quel(?:le)?s?(?: sont les?)?)"
_LIST = rf"(?:{_SHOW}|which are|what are|enumerate|enumere[rz]?)(?: (?:all|every|tous|toutes))?(?: (?:of )?(?:the|les|le|la))?"
_AFTER = r"(?:after|behind|following|downstream (?:of|from)|apres|en aval (?:de|du)|a la suite (?:de|du))"
_BEFORE = r"(?:before|preceding|ahead of|upstream (?:of|from)|avant|en amont (?:de|du))"
_ASKS = (
    r"(?:what|which|who|show|list|give|tell|everything|anything|all|any|the|is|are|nodes?|que|qu'|quoi|quel|tout|tous"
    r"|noeuds?|montre|liste|donne|y a|il y a|et|steps?|etapes?|see|find|how|combien|\d)"
)
_DEEP = re.compile(
    r"\b(?:everything|all|tout|toute|tous|toutes|upstream|downstream|amont|aval|transitive(?:ly|ment)?)\b"
)
_HOPS = re.compile(
    r"\b(?P<n>[1-9]|one|two|three|une?|deux|trois) (?:steps?|levels?|hops?|pas|niveaux?|sauts?|etapes?)\b"
)
_NUMBERS = {"one": 1, "un": 1, "une": 1, "two": 2, "deux": 2, "three": 3, "trois": 3}
_IS_GRAPH = re.compile(
    rf"(?:{_THIS} ?)?(?:whole |tout )?{GRAPH}(?: (?:do|does|about|for|like|nba|complete?))*|this|ceci|ca|that"
)
_INDEFINITE = re.compile(r"(?:an?|une?) ")
_GENERIC = re.compile(
    rf"(?:the |les |des |d')?(?:(?P<nodes>{NODE})|(?P<edges>{EDGE})|(?P<types>(?:node )?types?(?: de noeuds?)?)"
    rf"|(?P<sheets>{SHEET}))"
)
_THERE = (
    r"(?:(?: (?:are there|is there|exist|are|there are|do (?:we|i|you) have|does (?:it|this \w+|the \w+) have|can i use|are available"
    r"|existent|y a[- ]t[- ]il|il y a|sont disponibles|y a t il|a[- ]t[- ]on|contient[- ]il|compte|contient|has|in total|au total"
)
_WHERE_IN = rf"|(?:in|dans|of|de) (?:{_THIS} )?{GRAPH}|here|ici))*)"
_EXIST = _THERE + _WHERE_IN
_TYPED = r"(?:of|with|de|du|avec)(?: (?:the|le))? ?types? (?P<type>.+?)"
_SHEETED = rf"(?:on|in|of|sur|dans|de)(?: (?:the|la))? ?{SHEET} (?P<sheet>.+?)"
_UNLINKED = (
    r"(?:unconnected|disconnected|isolated|orphan(?:ed|s)?|unlinked|unwired|loose|lonely|stray|deconnectee?s?"
    r"|isolee?s?|orphelin(?:e)?s?|(?:not|non|pas) (?:connected|linked|wired|reliee?s?|connectee?s?|relies)"
    rf"|(?:without|with no|sans)(?: any| aucune?)? {EDGE})"
)


def read_question(said: Spoken) -> Question:
    """Return what is asked; what fits no form becomes a search."""
    intent = first_fit(said, _FORMS)
    if isinstance(intent, Question):
        return intent
    whole = said.wording.original.strip()
    return Search(query=whole[:MAX_QUERY]) if whole else Help()


def _describe(match: Match) -> Intent | None:
    word = match.word("n").strip()
    if _IS_GRAPH.fullmatch(word):
        return DescribeGraph()
    node = match.mention("n")
    return DescribeNode(node=node) if node else None


def _what_is(match: Match) -> Intent | None:
    word = re.sub(r" (?:do|does|for|mean|about)$", "", match.word("n").strip())
    if _IS_GRAPH.fullmatch(word):
        return DescribeGraph()
    start = match.found.start("n")
    found = re.compile(r"(?P<n>.*)").fullmatch(match.wording.folded, start, start + len(word))
    node = match.wording.mention(found, "n") if found else None
    if node is None or len(node.text.split()) > 8:
        return None
    return DescribeNode(node=node, indefinite=_INDEFINITE.match(word) is not None)


def _neighbours(match: Match) -> Intent | None:
    node = match.mention("n")
    if node is None:
        return None
    word = match.found[0]
    direction = "out" if match.word("after") else "in" if match.word("before") else "any"
    hops = _HOPS.search(word[: match.found.start("n") - match.found.start()])
    depth = 1
    if hops is not None:
        depth = _NUMBERS.get(hops["n"]) or int(hops["n"])
    elif _DEEP.search(word[: match.found.start("n") - match.found.start()]):
        depth = MAX_DEPTH
    return Neighbours(node=node, direction=direction, depth=min(depth, MAX_DEPTH))


def _path(match: Match) -> Intent | None:
    start, end = match.mention("a"), match.mention("b")
    return FindPath(start=start, end=end) if start and end else None


def _count(match: Match) -> Intent | None:
    kind, sheet = match.mention("type"), match.mention("sheet")
    thing = match.word("what").strip()
    generic = _GENERIC.fullmatch(thing)
    if generic is not None:
        return Count(what=generic.lastgroup, type=kind, sheet=sheet)  # pyright: ignore[reportArgumentType]
    return Count(what="nodes", type=match.mention("what"), sheet=sheet)


def _listing(match: Match) -> Intent | None:
    kind, sheet = match.mention("type"), match.mention("sheet")
    thing = match.word("what").strip()
    generic = _GENERIC.fullmatch(thing)
    if generic is None:
        named = match.mention("what")
        return ListNodes(type=named, sheet=sheet) if named and len(named.text.split()) <= 4 else None
    if generic["types"]:
        return ListTypes()
    if generic["sheets"]:
        return ListSheets()
    return ListNodes(type=kind, sheet=sheet) if generic["nodes"] else DescribeGraph()


def _code(match: Match) -> Intent | None:
    node = match.mention("n")
    return ShowCode(node=node) if node else None


def _field(match: Match) -> Intent | None:
    node, name = match.mention("n"), match.text("f")
    if node is None or not name or _IS_GRAPH.fullmatch(match.word("n")):
        return None
    return ShowField(field=name, node=node)


def _type(match: Match) -> Intent | None:
    kind = match.mention("n")
    return DescribeType(type=kind) if kind else None


def _search(match: Match) -> Intent | None:
    query = match.text("q")
    return Search(query=query[:MAX_QUERY]) if query else None


_CODE = r"(?:code|process|script|source(?: code)?|javascript|js)"
_OF = r"(?:of|for|in|from|on|de la|de l'|de|du|d'|dans|sur)"
_WORDS = rf"(?:{QUOTE}|[\w$][\w$.-]*(?: [\w$.-]+)?)"
_FORMS: list[Form] = [
    form(
        r"(?:help|aide|aidez-moi|aide-moi|\?|what can you do|what can i (?:ask|do)|que (?:peux|sais)[- ]tu faire"
        r"|que pouvez[- ]vous faire|hi|hello|hey|bonjour|salut|)",
        lambda _: Help(),
    ),
    form(
        rf"(?:{_SHOW} )?(?:an? |une? |the |la )?(?:overview|summary|vue d'ensemble|resume|apercu)(?: (?:of|de|du) .*)?",
        lambda _: DescribeGraph(),
    ),
    form(
        rf"(?:what|which|combien|quels?|quelles?|how many|are there|y a[- ]t[- ]il|{_LIST}|list).*"
        rf"(?:{_UNLINKED} (?:any )?(?:{NODE})|(?:{NODE})\b.*{_UNLINKED}).*",
        lambda _: Unconnected(),
    ),
    form(rf"(?:what(?: is|'s)|which|quels?|quelles?|qu'est-ce qui) .*{_UNLINKED}", lambda _: Unconnected()),
    form(
        rf"(?:how many|combien (?:de|d'|y a[- ]t[- ]il de)) ?(?P<what>.+?)(?: {_TYPED})?(?: {_SHEETED})?{_EXIST}",
        _count,
    ),
    form(rf"(?:number of|nombre (?:de|d')) ?(?P<what>.+?)(?: {_TYPED})?(?: {_SHEETED})?{_EXIST}", _count),
    form(
        r"(?:is there|are there|y a[- ]t[- ]il|show(?: me)?|find(?: me)?|give me|what is|quel est|trouve|montre|donne)?"
        r" ?(?:an?|the|une?|le|la)? ?(?:shortest |plus court )?(?:path|route|way|chemin|trajet|parcours|passage)"
        r" (?:from|between|de|du|d'|entre) ?(?P<a>.+?) (?:to|and|a|au|et|vers|jusqu'a) (?P<b>.+)",
        _path,
    ),
    form(
        r"how (?:do|does|can|to) (?:i |you |we |one |it |data )?(?:get|go|flow|come|reach|pass) (?:from )(?P<a>.+?)"
        r" to (?P<b>.+)",
        _path,
    ),
    form(r"(?:how does|can|does) (?P<a>.+?) (?:reach|get to|lead to|flow (?:in)?to) (?P<b>.+)", _path),
    form(
        r"comment (?:va[- ]t[- ]on|aller|passe[- ]t[- ]on|passer|arrive[- ]t[- ]on) (?:de|du|d') ?(?P<a>.+?)"
        r" (?:a|au|vers|jusqu'a) (?P<b>.+)",
        _path,
    ),
    form(r"is (?P<a>.+?) (?:connected|linked) (?:to|with) (?P<b>.+)", _path),
    form(
        r"(?:est-ce que )?(?P<a>.+?) (?:est[- ](?:il |elle )?)(?:relie|connecte)e? (?:a|au|avec) (?P<b>.+)",
        _path,
    ),
    form(rf"(?:{_SHOW} |what is |what's |quel est |read )?(?:the |le )?{_CODE} {_OF} ?(?P<n>.+)", _code),
    form(
        rf"(?:what|which|quel) {_CODE} (?:does |is |do |est |a |execute |lance |contient |utilise )+(?P<n>.+?)"
        r"(?: (?:have|has|run|runs|execute|contain|use|in))?",
        _code,
    ),
    form(rf"(?:{_SHOW} )?(?P<n>.+?)'s {_CODE}", _code),
    form(
        rf"(?:{_LIST} |{_WHICH} )(?:available |different |disponibles )?(?:node )?types?(?: de noeuds?)?{_EXIST}",
        lambda _: ListTypes(),
    ),
    form(rf"(?:{_LIST} |{_WHICH} ){SHEET}{_EXIST}", lambda _: ListSheets()),
    form(
        rf"(?:{_EXPLAIN}|{_WHAT_IS}|{_SHOW}) (?:the |le |du |a |an |un |une )?(?:node )?type (?:de noeud )?(?P<n>.+?)(?: do| for| mean)?",
        _type,
    ),
    form(rf"(?:{_EXPLAIN}|{_WHAT_IS}) (?:the |le )?(?P<n>.+?) (?:node )?type", _type),
    form(
        rf"(?:{_LIST}|{_WHICH}|list|liste[rz]?|enumere[rz]?)(?: (?:all|the|les|tous|toutes))* (?P<what>{NODE}|{EDGE})"
        rf"(?: (?:are|is|that are|sont|est|qui sont|avec))?(?: {_TYPED})?(?: {_SHEETED})?{_EXIST}",
        _listing,
    ),
    form(
        rf"(?:list|liste[rz]?|enumere[rz]?|enumerate|show all|montre tous)(?: (?:all|the|les|tous|toutes|me|every))* (?P<what>.+?)"
        rf"(?: {NODE})?(?: {_SHEETED})?{_EXIST}",
        _listing,
    ),
    form(
        rf"{_WHICH} (?P<what>[\w ./@:-]{{1,60}}?) (?:are there|exist|y a[- ]t[- ]il|existent)(?: {_SHEETED})?",
        _listing,
    ),
    form(
        r"(?:what|who|which nodes?|que|qu'est-ce qui|qui|quels? noeuds?) (?P<after>follows?|succeeds?|suit|suivent)"
        r" (?P<n>.+)",
        _neighbours,
    ),
    form(
        r"(?:what|who|which nodes?|qu'est-ce qui|qui|quels? noeuds?) (?P<before>precedes?|precede|precedent"
        r"|leads? to|calls?|feeds?|triggers?|connects? to|goes? (?:in)?to|mene a|appelle|alimente|declenche) (?P<n>.+)",
        _neighbours,
    ),
    form(
        rf"(?:et |and )?(?:{_ASKS}\b.*? ?)?(?:(?P<after>{_AFTER})|(?P<before>{_BEFORE})) ?(?P<n>.+?)"
        r"(?: (?:run|runs|execute|executes|finish|finishes|s'execute|vient|is there|y a-t-il))?",
        _neighbours,
    ),
    form(
        rf"(?:{_ASKS} ?)*(?:neighbou?rs?|neighbou?rhood|surroundings|connections|links|voisins?|voisinage|connexions"
        rf"|liens|(?P<after>successors?|outputs|children|successeurs?|sorties|descendants?)"
        rf"|(?P<before>predecessors?|inputs|parents?|predecesseurs?|entrees|ancestors?)) {_OF} ?(?P<n>.+)",
        _neighbours,
    ),
    form(
        r"(?:what|who|which nodes?) (?:is|are) (?P<n>.+?) (?:connected|linked|wired) (?:to|with)", _neighbours
    ),
    form(
        r"(?:what|which nodes?|who) (?:is|are) (?:connected|linked|next|close|around|near)(?: to)? (?P<n>.+)",
        _neighbours,
    ),
    form(r"(?:a quoi|avec quoi) est (?:relie|connecte)e? (?P<n>.+)", _neighbours),
    form(
        r"(?:qu'est-ce qui|qui|quels? noeuds?) (?:est|sont) (?:relie|connecte)e?s? (?:a|au|avec) (?P<n>.+)",
        _neighbours,
    ),
    form(
        r"(?:where does|what does) (?P<n>.+?) (?P<after>go|lead(?: to)?|flow(?: to)?|connect to|send to)",
        _neighbours,
    ),
    form(r"(?:ou (?:va|mene)|vers quoi (?:va|mene)) (?P<after>)(?P<n>.+)", _neighbours),
    form(
        rf"(?:{_SHOW} |what(?: is|'s| are) |quel(?:le)?s? (?:est|sont) |give me )(?:the |le |la |l'|les )?(?P<f>{_WORDS}) {_OF} ?(?P<n>.+)",
        _field,
    ),
    form(r"(?:what|which) (?P<f>[\w$.-]+) (?:does|do|is|has) (?P<n>.+?)(?: (?:have|use|has|of))?", _field),
    form(rf"(?:what is |what's )(?P<n>.+?)'s (?P<f>{_WORDS})", _field),
    form(
        r"(?:find|search(?: for)?|look for|cherche[rz]?|trouve[rz]?|recherche[rz]?|locate)(?: (?:the|le|la|les|all))? (?P<q>.+)",
        _search,
    ),
    form(
        r"(?:where|ou|in which|dans quel|which node|quel noeud|quels noeuds|which nodes)\b.*",
        lambda m: Search(query=m.wording.original.strip()[:MAX_QUERY]),
    ),
    form(rf"{_EXPLAIN} (?P<n>.+)", _describe),
    form(rf"{_WHAT_IS} ?(?P<n>.+?)", _what_is),
]
