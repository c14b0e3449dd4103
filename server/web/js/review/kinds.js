// The kinds of proposals, by what they do. Pure.

const KINDS = {
  create_node: "create", create_node_with_edges: "create", update_node: "change", move_node: "layout", delete_node: "delete",
  create_edge: "connect", delete_edge: "connect", configure_node_type: "types", reorganize_layout: "layout", import_file: "import",
};
const PLACE = new Set(["posX", "posY", "size"]);
export const KIND_ICONS = { create: "plus", change: "pencil", code: "Code", delete: "trash", connect: "graph", layout: "tidy", types: "Box", import: "upload", several: "sheets" };

// Returns the kind of an approval: the one of all its actions, or "several".
export function kindOf({ action }) {
  if (action?.type !== "batch") return kindOfAction(action);
  const kinds = new Set((action.payload.actions ?? []).map(kindOfAction));
  return kinds.size === 1 ? [...kinds][0] : "several";
}

function kindOfAction({ type, payload } = {}) {
  const fields = type === "update_node" ? Object.keys(payload?.changes ?? {}) : [];
  if (fields.includes("process") || payload?.patches?.length) return "code";
  if (fields.length && fields.every((name) => PLACE.has(name.split(".")[0]))) return "layout";
  return KINDS[type] ?? "several";
}
