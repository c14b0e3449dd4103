"""Decides what to do for a message: which handler answers it, and what is said when none can."""

from __future__ import annotations

from dataclasses import dataclass

from graphrag.offline import arranging, changing, creating
from graphrag.offline.conversation import Conversation
from graphrag.offline.desk import Call, CannotGoOn, Desk, Needs
from graphrag.offline.flow_answers import is_name, neighbours, path
from graphrag.offline.graph_answers import (
    count,
    describe_graph,
    describe_type,
    list_nodes,
    list_sheets,
    list_types,
    unconnected,
)
from graphrag.offline.intents import (
    Command,
    Connect,
    Count,
    CreateNode,
    DeleteEdge,
    DeleteNodes,
    DescribeGraph,
    DescribeNode,
    DescribeType,
    FindPath,
    Help,
    Incomplete,
    Intent,
    ListNodes,
    ListSheets,
    ListTypes,
    Move,
    Neighbours,
    Question,
    Rename,
    Search,
    SetField,
    ShowCode,
    ShowField,
    Tidy,
    Unconnected,
)
from graphrag.offline.node_answers import describe_node, show_code, show_field
from graphrag.offline.outcomes import report
from graphrag.offline.questions import MAX_QUERY
from graphrag.offline.search_answers import search
from graphrag.offline.type_names import find_type, read_types
from graphrag.offline.understanding import understand


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What the provider says now: text, or calls with or without a text before them."""

    text: str = ""
    calls: tuple[Call, ...] = ()


def next_step(conversation: Conversation, offered: frozenset[str]) -> Step:
    """Return the next step of the turn. Never raises for what a person, a tool or a graph may say."""
    understood = understand(conversation)
    desk = Desk(conversation, offered, meant=understood.meant)
    proposed = desk.proposed()
    if proposed:  # never a second proposal in a turn, whatever became of the first
        return Step(text=report(desk, proposed))
    try:
        return Step(text=_answer(desk, understood.intent))
    except Needs as needs:
        return Step(text=needs.text, calls=needs.calls)
    except CannotGoOn as stop:
        return Step(text=stop.text)


def _answer(desk: Desk, intent: Intent) -> str:
    if isinstance(intent, Command):
        if not any(name.startswith("propose_") for name in desk.offered):
            return desk.say("no_write_tool")
        return _change(desk, intent)
    answer = _question(desk, intent)
    if answer is not None:
        return answer
    return search(desk, Search(query=desk.conversation.question.original.strip()[:MAX_QUERY]))


def _change(desk: Desk, command: Command) -> str:
    match command:
        case CreateNode():
            creating.create_node(desk, command)
        case Connect():
            changing.connect(desk, command)
        case DeleteNodes():
            changing.delete_nodes(desk, command)
        case DeleteEdge():
            changing.delete_edge(desk, command)
        case Rename():
            changing.rename(desk, command)
        case SetField():
            changing.set_field(desk, command)
        case Move():
            arranging.move(desk, command)
        case Tidy():
            arranging.tidy(desk, command)
        case Incomplete():
            pass
    return desk.say(f"incomplete_{command.kind}")


def _question(desk: Desk, question: Question) -> str | None:
    match question:
        case DescribeGraph():
            return describe_graph(desk)
        case DescribeNode():
            return _node_or_type(desk, question)
        case ShowCode():
            return show_code(desk, question)
        case ShowField():
            return show_field(desk, question)
        case Neighbours():
            return neighbours(desk, question)
        case FindPath():
            return path(desk, question)
        case Count():
            return count(desk, question)
        case ListNodes():
            return list_nodes(desk, question)
        case ListTypes():
            return list_types(desk)
        case DescribeType():
            return describe_type(desk, question)
        case ListSheets():
            return list_sheets(desk)
        case Unconnected():
            return unconnected(desk)
        case Search():
            return search(desk, question)
        case Help():
            return desk.say(f"help_{question.topic}")


def _node_or_type(desk: Desk, question: DescribeNode) -> str | None:
    """Describe the node, or the type of that name: `what is a filter?` asks for the type first."""
    if question.indefinite and not isinstance(find_type(question.node, read_types(desk)), list):
        return describe_type(desk, DescribeType(type=question.node))
    answer = describe_node(desk, question)
    if answer is not None or question.indefinite or not is_name(question.node):
        return answer
    if isinstance(find_type(question.node, read_types(desk)), list):
        return None
    return describe_type(desk, DescribeType(type=question.node))
