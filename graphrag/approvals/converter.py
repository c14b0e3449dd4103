"""Converts an action into instructions, new documents and deletions for editors and stores.

Anything that the action leaves open (keys, sheets, positions) is chosen here and written into the
action, so that applying it again has the same result. Without side effects: the same action, graph
and source of keys give the same result.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, final

from datasources.instructions import GraphInstruction, Instruction, Op
from datasources.types import Edge, Node, NodeTypeConfig, node_fields, parse_document
from graphrag.approvals.type_documents import configured_type
from graphrag.changes.field_diff import MISSING, field_changes
from graphrag.layout import Box, arrange, place_nodes
from tools import proposals
from tools.actions.base import ConversionPhase, Handle
from tools.actions.field_changes import changed_node, instructions_for, json_document
from tools.actions.field_checks import handles_from
from tools.actions.snapshot import Snapshot
from tools.proposal_parts import (
    ConfigureNodeType,
    CreateNode,
    ImportFile,
    Position,
    ReorganizeLayout,
)

Ids = Callable[[], str]
# Keys that were generated here and are kept. Any other key is the action's own name of a node.
_OWN = re.compile(r"ai_[0-9]+_[0-9a-z]{4,40}")


def new_id() -> str:
    """Returns `ai_{milliseconds}_{random}`: 48 random bits keep keys of one millisecond apart."""
    return f"ai_{time.time_ns() // 1_000_000}_{secrets.token_hex(6)}"


def convert_action(
    action: proposals.Action, snapshot: Snapshot, ids: Ids = new_id
) -> ActionConversion:
    """Returns the conversion of an action on a graph, whose workspace will own new node types.

    Raises: MalformedProposal, InstructionError, BadDocument, TooMuchToArrange.
    """
    conversion = ActionConversion(snapshot, ids)
    singles = [single for _, single in proposals.single_actions(action)]
    # A file's documents are taken as they are. The payload of any other action is completed with
    # the keys, sheets and places that are chosen.
    conversion.chosen = [
        {"payload": {}}
        if isinstance(one, proposals.ImportFileAction)
        else proposals.to_document(one)
        for one in singles
    ]
    for one in singles:
        if (new := one.effects().creates) and new.key:
            conversion.names.setdefault(new.key, conversion.fresh(new.key))
    ordered = sorted(zip(singles, conversion.chosen, strict=True), key=lambda part: part[0].phase)
    for single, document in ordered:
        if single.phase is not ConversionPhase.PLACES:
            single.convert(conversion, document["payload"])
    conversion.finish_new_nodes()
    for single, document in ordered:
        if single.phase is ConversionPhase.PLACES:
            single.convert(conversion, document["payload"])
    conversion.cut |= dict.fromkeys(snapshot.edges_of(set(conversion.gone)))
    return conversion


def _position(key: str, box: Box, node: Node) -> Position:
    """Returns a position as actions contain it, with the size only if it changes."""
    size = None if box.width == node.size.width and box.height == node.size.height else box
    width, height = (size.width, size.height) if size else (None, None)
    return Position(node_key=key, pos_x=box.x, pos_y=box.y, width=width, height=height)


def _written(place: Position) -> dict[str, Any]:
    return place.model_dump(by_alias=True, exclude_none=True)


@final
class ActionConversion:
    """The conversion of an action, on the graph in `snapshot`; created by `convert_action`.

    `gone` and `cut`: keys of nodes and edges to delete; `arranged`: of nodes that were arranged.
    `graph_fields`: fields of the graph itself, None to remove one; applied by stores only.
    `chosen`: the actions of a batch, or the single one, with the chosen keys, sheets and positions.
    """

    def __init__(self, snapshot: Snapshot, ids: Ids) -> None:
        sheets = snapshot.graph.sheets_list
        self.snapshot = snapshot
        self.ids = ids
        self.default_sheet = "0" if "0" in sheets else next(iter(sheets), "0")
        self.types = dict(snapshot.types)
        self.nodes = dict(snapshot.nodes)
        self.new_nodes: dict[str, Node] = {}
        self.new_edges: list[Edge] = []
        self.configs: list[NodeTypeConfig] = []
        self.instructions: list[dict[str, Any]] = []
        self.gone: dict[str, None] = {}
        self.cut: dict[str, None] = {}
        self.arranged: dict[str, None] = {}
        self.sheetless: set[str] = set()
        self.placeless: set[str] = set()
        self.sheetless_edges: set[str] = set()
        self.frames: list[Position] = []
        self.graph_fields: dict[str, Any] = {}
        # The keys of new nodes, by their names in the action.
        self.names: dict[str, str] = {}
        # The payloads of new nodes and edges by key; sheets and positions are added last.
        self.payloads: dict[str, dict[str, Any]] = {}
        self.chosen: list[dict[str, Any]] = []

    def fresh(self, key: str | None = None) -> str:
        """Returns a key for a new element: its own if it has one, else a generated one."""
        return key if key is not None and _OWN.fullmatch(key) else self.ids()

    def node(self, key: str) -> str:
        """Returns the key of a node that an action names, new or existing."""
        return self.names.get(key, key)

    def configure_type(self, payload: ConfigureNodeType) -> None:
        config = configured_type(
            payload, self.type_of(payload.type_key), self.snapshot.graph.workspace
        )
        self.types[config.type] = config
        self.configs.append(config)

    def delete_node(self, key: str) -> None:
        self.gone[key] = None

    def delete_edge(self, key: str) -> None:
        self.cut[key] = None

    def take_file(self, payload: ImportFile) -> None:
        """Adds the documents of an imported file."""
        for raw in payload.put_nodes:
            node = parse_document(Node, raw, "nodes")
            old = self.nodes.get(node.key)
            if old is None:
                self.new_nodes[node.key] = node
                continue
            for change in field_changes(json_document(old), json_document(node)):
                if change.after is MISSING:
                    self._instruct(node.key, Instruction(o=int(Op.REM), p=change.path))
                else:
                    self._instruct(
                        node.key, Instruction(o=int(Op.SET), p=change.path, v=change.after)
                    )
        self.new_edges += [parse_document(Edge, raw, "edges") for raw in payload.put_edges]
        self.gone.update(dict.fromkeys(payload.delete_nodes))
        self.cut.update(dict.fromkeys(payload.delete_edges))
        self.configs += [
            parse_document(NodeTypeConfig, raw, "node_configs") for raw in payload.put_types or ()
        ]
        self.graph_fields |= payload.put_graph or {}

    def type_of(self, name: str) -> NodeTypeConfig | None:
        found = self.types.get(name)
        return found or next((config for config in self.types.values() if config.key == name), None)

    def create_node(self, payload: CreateNode, chosen: dict[str, Any]) -> str:
        key = self.node(payload.key) if payload.key else self.fresh()
        chosen["key"] = key
        self.payloads[key] = chosen
        config = self.type_of(payload.type_key)
        own = handles_from(payload.handles)
        handles = own if own is not None else config.node.handles if config else {}
        fields: dict[str, Any] = {
            "key": key,
            "graph_key": self.snapshot.graph.key,
            "type": config.type if config else payload.type_key,
            "type_version": config.version if config else 1,
            "sheet": payload.sheet or self.default_sheet,
            "pos_x": payload.pos_x or 0,
            "pos_y": payload.pos_y or 0,
            "size": config.node.size.to_document() if config else {"width": 200, "height": 100},
            "handles": {side: group.to_document() for side, group in handles.items()},
            "data": {} if payload.data is None else payload.data,
        }
        given = ((name, getattr(payload, name, None)) for name in node_fields("proposable"))
        fields |= {name: value for name, value in given if value is not None and name not in fields}
        self.new_nodes[key] = Node.model_validate(fields, by_name=True)
        if payload.sheet is None:
            self.sheetless.add(key)
        if payload.pos_x is None or payload.pos_y is None:
            self.placeless.add(key)
        self.frames += payload.frames or ()
        return key

    def connect(
        self,
        key: str | None,
        source: Handle,
        target: Handle,
        *,
        label: str | None,
        sheet: str | None,
        chosen: dict[str, Any] | None = None,
    ) -> Edge:
        """Creates an edge. Its sheet is written into `chosen` once it is known."""
        fields: dict[str, Any] = {
            "key": self.fresh(key),
            "graph_key": self.snapshot.graph.key,
            "sheet": sheet or self.default_sheet,
            "source": self.node(source[0]),
            "source_handle": source[1],
            "target": self.node(target[0]),
            "target_handle": target[1],
        }
        if label is not None:
            fields["label"] = label
        edge = Edge.model_validate(fields, by_name=True)
        self.new_edges.append(edge)
        if sheet is None:
            self.sheetless_edges.add(edge.key)
        if chosen is not None:
            self.payloads[edge.key] = chosen
        return edge

    def update_node(self, key: str, changes: Mapping[str, Any]) -> None:
        node = self.nodes.get(key)
        for instruction in instructions_for(json_document(node) if node else None, changes):
            self._instruct(key, instruction, triggerHtmlRender=True)
        if node is not None:
            self.nodes[key] = changed_node(node, changes)

    def move_node(self, key: str, pos_x: float, pos_y: float) -> None:
        for name, value in (("posX", pos_x), ("posY", pos_y)):
            self._instruct(key, Instruction(o=int(Op.SET), p=(name,), v=value), animatePos=True)
        node = self.nodes.get(key)
        if node is not None:
            self.nodes[key] = node.replace(pos_x=pos_x, pos_y=pos_y)

    def _instruct(self, key: str, instruction: Instruction, **flags: bool) -> None:
        node = self.nodes.get(key) or self.new_nodes.get(key)
        sheet = node.sheet if node else self.default_sheet
        found = GraphInstruction.model_validate(
            {"i": instruction, "sheetId": sheet, "nodeId": key, **flags}, by_alias=True
        )
        self.instructions.append(found.to_document())

    def arrange(self, payload: ReorganizeLayout, chosen: dict[str, Any]) -> None:
        """Moves nodes to better positions, unless the payload already contains their positions."""
        keys = list(dict.fromkeys(self.node(key) for key in payload.node_keys))
        self.arranged.update(dict.fromkeys(keys))
        nodes = {**self.nodes, **self.new_nodes}
        if payload.positions is not None:
            places = {self.node(p.node_key): p for p in payload.positions}
        else:
            boxes = arrange(
                nodes,
                [*self.snapshot.edges.values(), *self.new_edges],
                keys=[key for key in keys if key in nodes],
                strategy=payload.strategy or "left_to_right",
            )
            places = {key: _position(key, box, nodes[key]) for key, box in boxes.items()}
        for key, place in places.items():
            if key in nodes:
                self.move_node(key, place.pos_x, place.pos_y)
                self._resize(key, place)
        chosen["nodeKeys"] = keys
        chosen["positions"] = [_written(place) for place in places.values()]

    def _resize(self, key: str, place: Position) -> None:
        for name in ("width", "height"):
            if (extent := getattr(place, name)) is not None:
                self._instruct(key, Instruction(o=int(Op.SET), p=("size", name), v=extent))

    def finish_new_nodes(self) -> None:
        """Chooses the sheets and positions that were left open."""
        self._choose_sheets()
        obstacles = {key: node for key, node in self.nodes.items() if key not in self.gone}
        fixed = {key: node for key, node in self.new_nodes.items() if key not in self.placeless}
        placeless = [node for key, node in self.new_nodes.items() if key in self.placeless]
        places = place_nodes(placeless, [*self.new_edges], {**obstacles, **fixed})
        for node in placeless:
            self.new_nodes[node.key] = node.replace(
                pos_x=places[node.key].x, pos_y=places[node.key].y
            )
        grown = [
            _position(key, box, obstacles[key]) for key, box in places.items() if key in obstacles
        ]
        if grown and placeless[-1].key in self.payloads:
            self.payloads[placeless[-1].key]["frames"] = [_written(place) for place in grown]
        for place in (*self.frames, *grown):
            frame = self.nodes.get(place.node_key)
            if frame is not None and place.width and place.height:
                width = max(place.width, frame.size.width)
                height = max(place.height, frame.size.height)
                self._resize(
                    place.node_key, place.model_copy(update={"width": width, "height": height})
                )
        for edge in self.new_edges:
            if edge.key in self.payloads:
                self.payloads[edge.key]["sheet"] = edge.sheet
        for key, node in self.new_nodes.items():
            if key in self.payloads:
                self.payloads[key] |= {"sheet": node.sheet, "posX": node.pos_x, "posY": node.pos_y}

    def _choose_sheets(self) -> None:
        """Places each new node on the sheet of the nodes it is connected to, together with new
        neighbours.
        """
        sheets = {key: node.sheet for key, node in {**self.nodes, **self.new_nodes}.items()}
        for key in self.sheetless:
            del sheets[key]
        open_edges = list(self.new_edges)
        while open_edges:
            reached = [e for e in open_edges if (e.source in sheets) != (e.target in sheets)]
            for edge in reached:
                sheet = sheets.get(edge.source) or sheets.get(edge.target) or self.default_sheet
                sheets.setdefault(edge.source, sheet)
                sheets.setdefault(edge.target, sheet)
            if not reached:
                break
            open_edges = [e for e in open_edges if e.source not in sheets or e.target not in sheets]
        for key in self.sheetless:
            self.new_nodes[key] = self.new_nodes[key].replace(
                sheet=sheets.get(key, self.default_sheet)
            )
        for number, edge in enumerate(self.new_edges):
            if edge.key in self.sheetless_edges:
                source = sheets.get(edge.source)
                target = sheets.get(edge.target)
                self.new_edges[number] = edge.replace(sheet=source or target or self.default_sheet)

    @property
    def sheet_id(self) -> str:
        """Returns the sheet that most of the action concerns."""
        nodes = self.snapshot.nodes
        edges = self.snapshot.edges
        sheets = [element.sheet for element in (*self.new_nodes.values(), *self.new_edges)]
        sheets += [instruction["sheetId"] for instruction in self.instructions]
        sheets += [nodes[key].sheet for key in self.gone if key in nodes]
        sheets += [edges[key].sheet for key in self.cut if key in edges]
        return max(sheets, key=sheets.count) if sheets else self.default_sheet

    def choices_in(self, action: proposals.Action) -> proposals.Action:
        """Returns the action with the chosen values. `chosen` may also contain further actions,
        after its own.
        """
        if isinstance(action, proposals.ImportFileAction):
            return action
        own = self.chosen[: len(list(proposals.single_actions(action)))]
        if isinstance(action, proposals.BatchAction):
            return proposals.parse_action({"type": "batch", "payload": {"actions": own}})
        return proposals.parse_action(own[0])

    def to_document(self) -> dict[str, Any]:
        """Returns the form for clients (`ai:apply_action`)."""
        return {
            "instructions": self.instructions,
            "nodesToCreate": [json_document(node) for node in self.new_nodes.values()],
            "edgesToCreate": [edge.to_document() for edge in self.new_edges],
            "nodeKeysToDelete": list(self.gone),
            "edgeKeysToDelete": list(self.cut),
            "nodeConfigsToUpsert": [json_document(config) for config in self.configs],
            "nodeKeysToReorganize": list(self.arranged),
            "sheetId": self.sheet_id,
        }
