"""Converts an action into what editors and stores carry out: instructions, new documents, deletions.

What the action leaves open (keys, sheets, places) is chosen here and written into the action, so that it
comes out the same whenever it is carried out.
Pure: the same action, documents and source of keys give the same result. Documents are optional;
with them values are set at the right depth, new nodes get a free place and a layout gets its positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from datasources.builtin_types import types_by_name
from datasources.instructions import GraphInstruction, Instruction, Op
from datasources.types import MAIN_SHEET, Edge, Node, NodeTypeConfig, node_fields, parse_document
from graphrag.approvals.actions.new_keys import Ids, KeyMap, new_id
from graphrag.approvals.actions.type_documents import configured_type
from graphrag.changes.field_diff import MISSING, field_changes
from graphrag.layout import Box, arrange, place_nodes
from tools.proposal_parts import CreateNode, ImportFile, Position
from tools.proposals import (
    BatchAction,
    ConfigureNodeTypeAction,
    CreateEdgeAction,
    CreateNodeAction,
    CreateNodeWithEdgesAction,
    DeleteEdgeAction,
    DeleteNodeAction,
    ImportFileAction,
    MoveNodeAction,
    ReorganizeLayoutAction,
    SingleAction,
    UpdateNodeAction,
    parse_action,
    single_actions,
    to_document,
)
from tools.write_tools.field_changes import changed_node, instructions_for, json_document
from tools.write_tools.type_checks import handles_from


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionConversionResult:
    """What carries out an action. `sheet_id` is the sheet that most of it is about."""

    sheet_id: str
    instructions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    nodes_to_create: list[Node] = field(default_factory=list[Node])
    edges_to_create: list[Edge] = field(default_factory=list[Edge])
    node_keys_to_delete: list[str] = field(default_factory=list[str])
    edge_keys_to_delete: list[str] = field(default_factory=list[str])
    node_configs_to_upsert: list[NodeTypeConfig] = field(default_factory=list[NodeTypeConfig])
    node_keys_to_reorganize: list[str] = field(default_factory=list[str])
    graph_fields: dict[str, Any] = field(default_factory=dict[str, Any])
    """Fields of the graph itself, None for one that goes; only stores carry them out."""
    chosen: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The actions of a batch, or the one, with the keys, sheets and places that were chosen."""

    def to_document(self) -> dict[str, Any]:
        """Return it as clients know it (`ai:apply_action`)."""
        return {
            "instructions": self.instructions,
            "nodesToCreate": [json_document(node) for node in self.nodes_to_create],
            "edgesToCreate": [edge.to_document() for edge in self.edges_to_create],
            "nodeKeysToDelete": self.node_keys_to_delete,
            "edgeKeysToDelete": self.edge_keys_to_delete,
            "nodeConfigsToUpsert": [json_document(config) for config in self.node_configs_to_upsert],
            "nodeKeysToReorganize": self.node_keys_to_reorganize,
            "sheetId": self.sheet_id,
        }


def convert_action(
    action: SingleAction | BatchAction | Mapping[str, Any],
    graph_key: str,
    default_sheet: str = MAIN_SHEET,
    configs: Iterable[NodeTypeConfig] = (),
    *,
    nodes: Mapping[str, Node] | None = None,
    edges: Mapping[str, Edge] | None = None,
    workspace: str = "",
    ids: Ids = new_id,
) -> ActionConversionResult:
    """Return what carries out the action.

    `nodes` and `edges` are the current documents, by key; `workspace` will own new node types.
    Raises: MalformedProposal, InstructionError, BadDocument.
    """
    parsed = parse_action(action)
    conversion = _Conversion(
        graph_key=graph_key,
        default_sheet=default_sheet,
        types=types_by_name(configs),
        nodes=dict(nodes or {}),
        edges=dict(edges or {}),
        workspace=workspace,
        keys=KeyMap(parsed, ids),
    )
    singles = [(single, _payload_of(single)) for _, single in single_actions(parsed)]
    # Types first, then nodes, then edges: the parts of a batch may come in any order.
    for kinds in (
        (ConfigureNodeTypeAction,),
        (CreateNodeAction, CreateNodeWithEdgesAction, ImportFileAction),
        (CreateEdgeAction,),
        (UpdateNodeAction, DeleteNodeAction, DeleteEdgeAction),
    ):
        for single, chosen in singles:
            if isinstance(single, kinds):
                conversion.add(single, chosen)
    conversion.finish_new_nodes()
    for single, chosen in singles:
        if isinstance(single, MoveNodeAction | ReorganizeLayoutAction):
            conversion.add(single, chosen)
    return conversion.result([{"type": single.type, "payload": chosen} for single, chosen in singles])


def _payload_of(single: SingleAction) -> dict[str, Any]:
    """Return what the action says, to be completed by what is chosen for it."""
    return {} if isinstance(single, ImportFileAction) else to_document(single)["payload"]


def with_choices(
    action: SingleAction | BatchAction, result: ActionConversionResult
) -> SingleAction | BatchAction:
    """Return the action with what its conversion chose, batches merged; more may have been converted."""
    if isinstance(action, ImportFileAction):
        return action
    own = result.chosen[: len(list(single_actions(action)))]
    return parse_action({"type": "batch", "payload": {"actions": own}} if action.type == "batch" else own[0])


def _position(key: str, box: Box, node: Node) -> Position:
    """Return a place as an action keeps it; the size only where it is another one."""
    size = None if box.width == node.size.width and box.height == node.size.height else box
    width, height = (size.width, size.height) if size else (None, None)
    return Position(node_key=key, pos_x=box.x, pos_y=box.y, width=width, height=height)


@dataclass(slots=True, kw_only=True)
class _Conversion:
    graph_key: str
    default_sheet: str
    types: dict[str, NodeTypeConfig]
    nodes: dict[str, Node]
    edges: dict[str, Edge]
    workspace: str
    keys: KeyMap
    new_nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    new_edges: list[Edge] = field(default_factory=list[Edge])
    configs: list[NodeTypeConfig] = field(default_factory=list[NodeTypeConfig])
    instructions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    gone: dict[str, None] = field(default_factory=dict[str, None])
    cut: dict[str, None] = field(default_factory=dict[str, None])
    arranged: dict[str, None] = field(default_factory=dict[str, None])
    sheetless: set[str] = field(default_factory=set[str])
    placeless: set[str] = field(default_factory=set[str])
    frames: list[Position] = field(default_factory=list[Position])
    sheetless_edges: set[str] = field(default_factory=set[str])
    chosen: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """The payloads of new nodes and edges, by the key of these: their sheets and places are chosen last."""
    graph_fields: dict[str, Any] = field(default_factory=dict[str, Any])

    def add(self, single: SingleAction, chosen: dict[str, Any]) -> None:
        """Take an action in; write into `chosen`, its payload, what is chosen for it."""
        match single:
            case ConfigureNodeTypeAction(payload=payload):
                config = configured_type(payload, self.type_of(payload.type_key), self.workspace)
                self.types[config.type] = config
                self.configs.append(config)
            case CreateNodeAction(payload=payload):
                self._create(payload, chosen)
            case CreateNodeWithEdgesAction(payload=payload):
                key = self._create(payload, chosen)
                for edge, of_edge in zip(payload.edges, chosen["edges"], strict=True):
                    own, other = (key, edge.handle_id), (edge.target_node_key, edge.target_handle_id)
                    ends = (own, other) if edge.direction == "out" else (other, own)
                    made = self._connect(edge.key, *ends, label=edge.label, sheet=None)
                    of_edge |= {"key": made.key, "targetNodeKey": self.keys.node(edge.target_node_key)}
            case CreateEdgeAction(payload=edge):
                source, target = (edge.source_key, edge.source_handle), (edge.target_key, edge.target_handle)
                made = self._connect(edge.key, source, target, label=edge.label, sheet=edge.sheet)
                chosen |= {"key": made.key, "sourceKey": made.source, "targetKey": made.target}
                self.chosen[made.key] = chosen
            case UpdateNodeAction(payload=payload):
                self._update(payload.node_key, payload.changes)
            case DeleteNodeAction(payload=payload):
                self.gone[payload.node_key] = None
            case DeleteEdgeAction(payload=payload):
                self.cut[payload.edge_key] = None
            case MoveNodeAction(payload=payload):
                chosen["nodeKey"] = self.keys.node(payload.node_key)
                self._move(chosen["nodeKey"], payload.pos_x, payload.pos_y)
            case ReorganizeLayoutAction():
                chosen |= self._arrange(single)
            case ImportFileAction(payload=payload):
                self._take(payload)

    def _take(self, payload: ImportFile) -> None:
        """Take documents as a file has them."""
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
                    self._instruct(node.key, Instruction(o=int(Op.SET), p=change.path, v=change.after))
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

    def _create(self, payload: CreateNode, chosen: dict[str, Any]) -> str:
        key = self.keys.node(payload.key) if payload.key else self.keys.fresh()
        chosen["key"] = key
        self.chosen[key] = chosen
        config = self.type_of(payload.type_key)
        own = handles_from(payload.handles)
        handles = own if own is not None else config.node.handles if config else {}
        fields: dict[str, Any] = {
            "key": key,
            "graph_key": self.graph_key,
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

    def _connect(
        self,
        key: str | None,
        source: tuple[str, str],
        target: tuple[str, str],
        *,
        label: str | None,
        sheet: str | None,
    ) -> Edge:
        fields: dict[str, Any] = {
            "key": self.keys.fresh(key),
            "graph_key": self.graph_key,
            "sheet": sheet or self.default_sheet,
            "source": self.keys.node(source[0]),
            "source_handle": source[1],
            "target": self.keys.node(target[0]),
            "target_handle": target[1],
        }
        if label is not None:
            fields["label"] = label
        edge = Edge.model_validate(fields, by_name=True)
        self.new_edges.append(edge)
        if sheet is None:
            self.sheetless_edges.add(edge.key)
        return edge

    def _update(self, key: str, changes: Mapping[str, Any]) -> None:
        node = self.nodes.get(key)
        for instruction in instructions_for(json_document(node) if node else None, changes):
            self._instruct(key, instruction, triggerHtmlRender=True)
        if node is not None:
            self.nodes[key] = changed_node(node, changes)

    def _move(self, key: str, pos_x: float, pos_y: float) -> None:
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

    def _arrange(self, single: ReorganizeLayoutAction) -> dict[str, Any]:
        keys = list(dict.fromkeys(self.keys.node(key) for key in single.payload.node_keys))
        self.arranged.update(dict.fromkeys(keys))
        known = {**self.nodes, **self.new_nodes}
        if single.payload.positions is not None:
            places = {self.keys.node(p.node_key): p for p in single.payload.positions}
        else:
            made = arrange(
                known,
                [*self.edges.values(), *self.new_edges],
                keys=[key for key in keys if key in known],
                strategy=single.payload.strategy or "left_to_right",
            )
            places = {key: _position(key, box, known[key]) for key, box in made.items()}
        for key, place in places.items():
            if key in known:
                self._move(key, place.pos_x, place.pos_y)
                self._resize(key, place)
        return {
            "nodeKeys": keys,
            "positions": [place.model_dump(by_alias=True, exclude_none=True) for place in places.values()],
        }

    def _resize(self, key: str, place: Position) -> None:
        for name in ("width", "height"):
            if (extent := getattr(place, name)) is not None:
                self._instruct(key, Instruction(o=int(Op.SET), p=("size", name), v=extent))

    def finish_new_nodes(self) -> None:
        """Choose the sheets and places that were left open."""
        self._choose_sheets()
        obstacles = {key: node for key, node in self.nodes.items() if key not in self.gone}
        fixed = {key: node for key, node in self.new_nodes.items() if key not in self.placeless}
        placeless = [node for key, node in self.new_nodes.items() if key in self.placeless]
        places = place_nodes(placeless, [*self.new_edges], {**obstacles, **fixed})
        for node in placeless:
            self.new_nodes[node.key] = node.replace(pos_x=places[node.key].x, pos_y=places[node.key].y)
        grown = [_position(key, box, obstacles[key]) for key, box in places.items() if key in obstacles]
        if grown and placeless[-1].key in self.chosen:
            self.chosen[placeless[-1].key]["frames"] = [
                place.model_dump(by_alias=True, exclude_none=True) for place in grown
            ]
        for place in (*self.frames, *grown):
            frame = self.nodes.get(place.node_key)
            if frame is not None and place.width and place.height:
                width, height = max(place.width, frame.size.width), max(place.height, frame.size.height)
                self._resize(place.node_key, place.model_copy(update={"width": width, "height": height}))
        for edge in self.new_edges:
            if edge.key in self.chosen:
                self.chosen[edge.key]["sheet"] = edge.sheet
        for key, node in self.new_nodes.items():
            if key in self.chosen:
                self.chosen[key] |= {"sheet": node.sheet, "posX": node.pos_x, "posY": node.pos_y}

    def _choose_sheets(self) -> None:
        """A new node goes to the sheet of what it is connected to, and takes new neighbours along."""
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
            self.new_nodes[key] = self.new_nodes[key].replace(sheet=sheets.get(key, self.default_sheet))
        for number, edge in enumerate(self.new_edges):
            if edge.key in self.sheetless_edges:
                source, target = sheets.get(edge.source), sheets.get(edge.target)
                self.new_edges[number] = edge.replace(sheet=source or target or self.default_sheet)

    def result(self, chosen: list[dict[str, Any]]) -> ActionConversionResult:
        cut = dict(self.cut)
        for key, edge in self.edges.items():
            if edge.source in self.gone or edge.target in self.gone:
                cut[key] = None
        touched = [made.sheet for made in (*self.new_nodes.values(), *self.new_edges)]
        touched += [instruction["sheetId"] for instruction in self.instructions]
        touched += [self.nodes[key].sheet for key in self.gone if key in self.nodes]
        touched += [self.edges[key].sheet for key in cut if key in self.edges]
        return ActionConversionResult(
            sheet_id=max(touched, key=touched.count) if touched else self.default_sheet,
            instructions=self.instructions,
            nodes_to_create=list(self.new_nodes.values()),
            edges_to_create=self.new_edges,
            node_keys_to_delete=list(self.gone),
            edge_keys_to_delete=list(cut),
            node_configs_to_upsert=self.configs,
            node_keys_to_reorganize=list(self.arranged),
            graph_fields=self.graph_fields,
            chosen=chosen,
        )
