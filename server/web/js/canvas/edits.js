// This person's own live edits: sent, shown when they are accepted, taken back by the server.

import { labelOf, sentences } from "../names.js";
import * as roles from "../roles.js";

const MOST_KEYS = 1000; // that one request may ask for

export function createEdits({ store, live, socket, t, toast, ApiError }) {
  let last = Promise.resolve();

  const isElsewhere = () => Boolean(store.get().notEditable?.isElsewhere);
  const mayEdit = () => roles.mayEdit(store.get().me) && !isElsewhere() && !store.get().past;

  // Says why nothing can be edited now, or returns true.
  function check() {
    if (isElsewhere()) toast("warn", t("canvas.elsewhere"));
    else if (!mayEdit()) toast("warn", t("canvas.read_only"));
    else if (store.get().connection !== "open") toast("warn", t("canvas.offline"));
    else return true;
    return false;
  }

  // Sends an edit after the ones before it; resolves to its answer, or to null when it was refused, which is said.
  async function send(message) {
    if (!check()) return null;
    const work = last.then(() => live.edit(message));
    last = work.catch(() => {});
    return work.catch(refused);
  }

  function refused(error) {
    if (!(error instanceof ApiError)) throw error;
    toast("error", t("canvas.edit_refused", { reason: error.message }));
    return null;
  }

  // The server knows this person's edits of the graph, also those of before the page was loaded.
  async function takeBack(type, said) {
    const answer = await send({ type });
    if (answer?.edit) toast("ok", t(said, { what: sentences(answer.edit.steps, { t, store }).join(" · ") }));
    else if (answer) toast("info", t("canvas.nothing_to_undo"), { action: { label: t("canvas.approved_changes"), run: () => store.set({ panel: "review", reviewView: "history" }) } });
  }

  const instruct = async (instructions) => Boolean(instructions.length && (await send({ type: "applyInstructionToGraph", instructions })));

  const set = (place, field, value) => ({ ...place, i: { o: 1, p: [field].flat(), v: value } });

  // Moves nodes: [{key, x, y}] in canvas coordinates, with width and height for one that gets another size.
  function move(moves) {
    const { nodes } = store.get();
    const asked = [];
    for (const { key, x, y, width, height } of moves) {
      const node = nodes.get(key);
      if (!node) continue;
      const place = { sheetId: node.sheet ?? "0", nodeId: key, animatePos: true };
      if (x !== node.posX) asked.push(set(place, "posX", x));
      if (y !== node.posY) asked.push(set(place, "posY", y));
      if (width !== undefined) asked.push(set(place, "size", { ...node.size, width, height }));
    }
    return instruct(asked);
  }

  // Says which of these nodes were deleted while this person moved or connected them. `earlier`: the nodes as they were.
  function tellGone(keys, earlier) {
    const { nodes, nodeTypes, graphState } = store.get();
    const gone = keys.filter((key) => earlier.has(key) && !nodes.has(key));
    if (!gone.length || graphState !== "ready") return;
    toast("warn", t("canvas.gone_meanwhile", { n: gone.length, name: labelOf(earlier.get(gone[0]), nodeTypes) }));
  }

  // Deletes nodes with their edges, and edges, of the sheet that is shown.
  async function remove(keys) {
    const { nodes, edges, sheet } = store.get();
    const nodeKeys = keys.filter((key) => nodes.has(key));
    const gone = new Set(nodeKeys);
    const edgeKeys = keys.filter((key) => !gone.has(key) && edges.has(key) && !gone.has(edges.get(key).source) && !gone.has(edges.get(key).target));
    return Boolean(await send({ type: "batchDeleteElements", sheetId: sheet, nodeKeys, edgeKeys }));
  }

  // Adds nodes and edges to the sheet that is shown, in one edit. Their keys hold among themselves alone: each gets a
  // new one. Resolves to the nodes' new keys by those, or to null.
  async function add(nodes, edges, { keepsGroups = true } = {}) {
    if (!check()) return null;
    const { graphKey, sheet } = store.get();
    const ids = await newKeys(nodes.length + edges.length).catch(refused);
    if (!ids) return null;
    const keys = new Map(nodes.map((node, i) => [node._key, ids[i]]));
    const of = (key) => keys.get(key) ?? key;
    const isDone = await send({
      type: "batchCreateElements", sheetId: sheet,
      nodes: nodes.map((node) => ({ ...grouped(node, keys, keepsGroups), _key: of(node._key), graphKey, sheet })),
      edges: edges.map((edge, i) => ({ ...edge, _key: ids[nodes.length + i], graphKey, sheet, source: of(edge.source), target: of(edge.target) })),
    });
    return isDone ? keys : null;
  }

  async function newKeys(count) {
    const found = [];
    while (found.length < count) found.push(...(await socket.request({ type: "generateUniqueId", ids: Array(Math.min(MOST_KEYS, count - found.length)).fill(0) })).ids);
    return found;
  }

  // A node's frame, and the nodes of a frame, under their new keys.
  function grouped(node, keys, keepsGroups) {
    const { data } = node;
    if (!data || (typeof data.group !== "string" && !Array.isArray(data.members))) return node;
    const { group, members, ...rest } = data;
    const frame = keys.get(group) ?? (keepsGroups ? group : undefined);
    return { ...node, data: { ...rest, ...(frame === undefined ? {} : { group: frame }), ...(members ? { members: members.filter((key) => keys.has(key)).map((key) => keys.get(key)) } : {}) } };
  }

  async function connect(source, sourceHandle, target, targetHandle) {
    return Boolean(await add([], [{ source, sourceHandle, target, targetHandle }]));
  }

  // Sets one field of a node or an edge: `field` is a name or a path.
  function setField(kind, document, field, value) {
    return instruct([set({ sheetId: document.sheet ?? "0", [`${kind}Id`]: document._key }, field, value)]);
  }

  // Sets what changed in fields of a node or an edge, all in one edit: `[{path, value}]`, without `value` what is removed.
  function setFields(kind, document, changes) {
    const place = { sheetId: document.sheet ?? "0", [`${kind}Id`]: document._key };
    return instruct(changes.map(({ path, value }) => (value === undefined ? { ...place, i: { o: 2, p: path } } : set(place, path, value))));
  }

  return {
    move, tellGone, remove, add, connect, setField, setFields, mayEdit, check,
    sheetEdit: async (message) => Boolean(await send(message)),
    undo: () => takeBack("undoEdit", "canvas.undone"),
    redo: () => takeBack("redoEdit", "canvas.redone"),
  };
}
