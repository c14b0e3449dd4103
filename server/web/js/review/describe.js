/** An action in a few words, with the names that people know. Pure. */

import { fieldName, nameOf } from "../names.js";

/** Return the sentence of a card's head. */
export function describeAction(app, action, preview) {
  const { t } = app;
  const payload = action?.payload ?? {};
  const named = (key) => nameOf(app, key, preview);
  switch (action?.type) {
    case "create_node":
      return t("action.create_node", { name: newName(payload), type: typeName(app, payload.typeKey) });
    case "create_node_with_edges":
      return t("action.create_node_with_edges", { name: newName(payload), type: typeName(app, payload.typeKey), count: payload.edges?.length ?? 0 });
    case "delete_node":
      return t("action.delete_node", { name: removedName(app, payload.nodeKey, preview) });
    case "update_node":
      return updateText(app, payload, preview);
    case "move_node":
      return t("action.move_node", { name: named(payload.nodeKey) });
    case "create_edge":
      return t("action.create_edge", { source: named(payload.sourceKey), target: named(payload.targetKey) });
    case "delete_edge":
      return t("action.delete_edge", edgeEnds(app, payload.edgeKey, preview));
    case "configure_node_type":
      return t(payload.mode === "create" ? "action.create_type" : "action.update_type", { type: payload.displayName || typeName(app, payload.typeKey) });
    case "reorganize_layout":
      return t("action.reorganize_layout", { count: payload.nodeKeys?.length ?? 0 });
    case "import_file": {
      const parts = ["putNodes", "putEdges", "deleteNodes", "deleteEdges", "putTypes"];
      const count = parts.reduce((sum, part) => sum + (payload[part]?.length ?? 0), payload.putGraph ? 1 : 0);
      return t(count ? "action.import_conflicts" : "action.import_file", { file: payload.file, n: count });
    }
    case "batch":
      return t("action.batch", { count: payload.actions?.length ?? 0 });
    default:
      return String(action?.type ?? "?");
  }
}

/** The sentences of what a batch consists of; of a single action none. */
export function describeParts(app, action, preview) {
  if (action?.type !== "batch") return [];
  return (action.payload.actions ?? []).flatMap((inner) => (inner.type === "batch" ? describeParts(app, inner, preview) : [describeAction(app, inner, preview)]));
}

const newName = (payload) => payload.data?.name || payload.data?.title || payload.key || payload.typeKey;

function typeName(app, key) {
  return app.store.get().nodeTypes?.get?.(key)?.displayName || key;
}

function changedName(app, key, preview) {
  const change = [...(preview?.nodesChanged ?? []), ...(preview?.nodesMoved ?? [])].find((one) => one.key === key);
  return change?.name || nameOf(app, key, preview);
}

function removedName(app, key, preview) {
  return nameOf(app, key, preview);
}

function updateText(app, payload, preview) {
  const { t } = app;
  const changes = payload.changes ?? {};
  const name = changedName(app, payload.nodeKey, preview);
  const after = changes["data.name"];
  if (typeof after === "string" && Object.keys(changes).length === 1 && !payload.patches) {
    const field = (preview?.nodesChanged ?? []).find((one) => one.key === payload.nodeKey)?.fields?.find((one) => one.path.join(".") === "data.name");
    return t("action.rename_node", { name: field?.before || name, after });
  }
  return t("action.update_node", { name, fields: fieldsOf(app, payload) });
}

function fieldsOf({ t }, payload) {
  const names = [...Object.keys(payload.changes ?? {}), ...(payload.patches ? ["process"] : [])];
  const text = [...new Set(names.map((name) => fieldName(t, name)))].join(", ");
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

function edgeEnds(app, key, preview) {
  const edge = app.store.get().edges?.get?.(key) ?? (preview?.edgesRemoved ?? []).find((one) => one._key === key);
  if (!edge) return { source: String(key), target: "?" };
  return { source: nameOf(app, edge.source, preview), target: nameOf(app, edge.target, preview) };
}
