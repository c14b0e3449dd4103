"""The one way to a message's blocks: checks them when sent, reads them for a turn, previews them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from datasources.base import GraphDataSource
from datasources.builtin_types import types_by_name
from datasources.text import node_label
from datasources.types import Graph
from graphrag.commands.blocks import (
    Block,
    BlockRefused,
    SentBlock,
    Target,
    blocks_of,
    check_blocks,
    linear_text,
    segments_of,
    summary,
    with_instants,
)
from graphrag.commands.command_reads import CommandPlace
from graphrag.commands.enrichments import commands
from graphrag.commands.execute import CommandResult, Guard, data_added, execute
from graphrag.commands.graph_history import GraphHistory
from graphrag.commands.transform import transform
from graphrag.i18n import Language
from graphrag.leases import now_ms
from graphrag.llm.base import SystemMessage, UserMessage
from graphrag.llm.message_text import clean
from graphrag.prompts.library import load_phrases
from graphrag.sessions.periods import Calendar
from graphrag.sessions.schedules import zone_of
from tools.base import Role, ToolBox, ToolContext
from tools.compact import cut_name
from tools.key_suggestions import describe_near, near_nodes

NAME_CHARS = 60
NEAR = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPreview:
    """What a block says in one line, and how many tokens what it reads has now."""

    id: str
    summary: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockReader:
    """Reads the blocks of the messages of one workspace. Units: `budget` in tokens, `clock` in milliseconds.

    Periods count by the calendar; a session passes its own, and the moment they count from.
    """

    source: GraphDataSource
    box: ToolBox
    guard: Guard
    history: GraphHistory
    budget: int = 8_000
    clock: Callable[[], int] = now_ms

    @property
    def calendar(self) -> Calendar:
        return self.history.calendar

    async def checked(
        self,
        graph_key: str,
        words: str,
        blocks: Sequence[SentBlock],
        language: Language,
        *,
        calendar: Calendar | None = None,
        keep_relative: bool = False,
    ) -> UserMessage:
        """Return the message of a person who sends words and blocks, with instants for its periods.

        With `keep_relative` periods stay as written: those of a template count when it is run.
        Raises: TooManyBlocks, BlockRefused (with the keys that may be meant), GraphNotFound.
        """
        if not blocks:
            return UserMessage(content=clean(words))
        check_blocks(blocks)
        calendar = calendar or self.calendar
        resolved = with_instants(blocks, self.clock(), calendar)
        kept = list(blocks) if keep_relative else resolved
        names = await self._names(graph_key, kept)
        said = {block.id: summary(block, names[block.id], language, calendar) for block in kept}
        content, segments = segments_of(clean(words), kept, said)
        return UserMessage(content=content, segments=segments)

    async def read(
        self,
        message: UserMessage,
        graph_key: str,
        role: Role,
        language: Language,
        *,
        calendar: Calendar | None = None,
        reference: int | None = None,
    ) -> SystemMessage | None:
        """Return what the blocks of a message find, for the model; None where it has none.

        A target that is gone and a period that is none are said in it. Raises: SourceError.
        """
        blocks = blocks_of(message.segments)
        if not blocks:
            return None
        results = await self._results(blocks, graph_key, role, language, calendar, reference)
        head = load_phrases("turn", language)["data_added"].render({})
        return data_added(results, head, language)

    async def worded(
        self, message: UserMessage, graph_key: str, language: Language, calendar: Calendar | None
    ) -> UserMessage:
        """Return a stored message with its linear text made again; a target that is gone is said by its key.

        Raises: GraphNotFound.
        """
        blocks = blocks_of(message.segments)
        if not blocks:
            return message
        graph, said = await self.source.get_graph(graph_key), dict[str, str]()
        for block in blocks:
            name, _ = await self._name(graph, block.target)
            name = cut_name(name or block.target.key, NAME_CHARS)
            said[block.id] = summary(block, name, language, calendar or self.calendar)
        return replace(message, content=linear_text(message.segments, said))

    def history_of(self, calendar: Calendar | None, reference: int | None) -> GraphHistory:
        """Return the history whose periods count by a calendar, from a moment."""
        return replace(self.history, calendar=calendar or self.calendar, reference=reference)

    async def preview(
        self, graph_key: str, blocks: Sequence[SentBlock], role: Role, language: Language
    ) -> list[BlockPreview]:
        """Return what each block says and weighs by itself. Raises: as `checked`."""
        check_blocks(blocks)
        resolved = with_instants(blocks, self.clock(), self.calendar)
        names = await self._names(graph_key, resolved)
        made: list[BlockPreview] = []
        for block in resolved:
            results = await self._results([block], graph_key, role, language, None, None)
            said = summary(block, names[block.id], language, self.calendar)
            made.append(BlockPreview(id=block.id, summary=said, tokens=sum(one.tokens for one in results)))
        return made

    async def _results(
        self,
        blocks: Sequence[Block],
        graph_key: str,
        role: Role,
        language: Language,
        calendar: Calendar | None,
        reference: int | None,
    ) -> list[CommandResult]:
        calendar = calendar or self.calendar
        now = self.clock() if reference is None else reference
        context = ToolContext(
            source=self.source,
            graph_key=graph_key,
            role=role,
            language=language,
            history=self.history_of(calendar, now),
        )
        place = CommandPlace(context=context, box=self.box, zone=zone_of(calendar.timezone), clock=self.clock)
        cascades = [transform(commands(block), now, calendar) for block in blocks]
        return await execute(cascades, place, self.guard, budget=self.budget)

    async def _names(self, graph_key: str, blocks: Sequence[Block]) -> dict[str, str]:
        """Return what the target of each block is called. Raises: BlockRefused, GraphNotFound."""
        graph = await self.source.get_graph(graph_key)
        found: dict[str, str] = {}
        for number, block in enumerate(blocks, start=1):
            name, near = await self._name(graph, block.target)
            if name is None:
                facts = {"kind": block.target.kind, "key": block.target.key[:100], "near": near or "–"}
                raise BlockRefused(number=number, why="without_target", **facts)
            found[block.id] = cut_name(name, NAME_CHARS)
        return found

    async def _name(self, graph: Graph, target: Target) -> tuple[str | None, str | None]:
        """Return the name of a target, or None and the keys that may be meant."""
        key = target.key
        match target.kind:
            case "graph":
                return (graph.name, None) if key == graph.key else (None, graph.key)
            case "sheet":
                return graph.sheets_list.get(key), _near(key, graph.sheets_list)
            case "nodeType":
                types = types_by_name(await self.source.get_node_configs())
                return (types[key].display_name, None) if key in types else (None, _near(key, types))
            case "node":
                nodes = await self.source.get_nodes_by_key(graph.key, [key])
                if nodes:
                    return node_label(nodes[0]), None
                return None, describe_near(await near_nodes(self.source, graph, key), graph)
            case "edge":
                edges = {edge.key: edge for edge in await self.source.get_edges(graph.key)}
                edge = edges.get(key)
                return (f"{edge.source} → {edge.target}", None) if edge else (None, _near(key, edges))


def _near(key: str, known: Mapping[str, object]) -> str | None:
    near = difflib.get_close_matches(key, list(known)[:5_000], n=NEAR, cutoff=0.5)
    return ", ".join(near) or None
