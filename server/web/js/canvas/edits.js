// This person's own live edits: sent, shown when they are accepted, taken back by the server.

import { sentences } from "../history.js";
import * as roles from "../roles.js";

export function createEdits({ store, live, socket, t, toast, ApiError }) {
  let last = Promise.resolve();

  const isElsewhere = () => Boolean(store.get().notEditable?.isElsewhere);
  const mayEdit = () => roles.mayEdit(store.get().me) && !isElsewhere();

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

  // Moves nodes: [{key, x, y}] in canvas coordinates.
  function move(moves) {
    const { nodes } = store.get();
    const asked = [];
    for (const { key, x, y } of moves) {
      const node = nodes.get(key);
      if (!node) continue;
      const place = { sheetId: node.sheet, nodeId: key, animatePos: true };
      if (x !== node.posX) asked.push(set(place, "posX", x));
      if (y !== node.posY) asked.push(set(place, "posY", y));
    }
    return instruct(asked);
  }

  // Deletes nodes with their edges, and edges, of the sheet that is shown.
  async function remove(keys) {
    const { nodes, edges, sheet } = store.get();
    const nodeKeys = keys.filter((key) => nodes.has(key));
    const gone = new Set(nodeKeys);
    const edgeKeys = keys.filter((key) => !gone.has(key) && edges.has(key) && !gone.has(edges.get(key).source) && !gone.has(edges.get(key).target));
    return Boolean(await send({ type: "batchDeleteElements", sheetId: sheet, nodeKeys, edgeKeys }));
  }

  // Adds a node or an edge without its key to a sheet; resolves to the key that it got, or null.
  async function add(kind, document) {
    if (!check()) return null;
    const answer = await socket.request({ type: "generateUniqueId", ids: [0] }).catch(refused);
    if (!answer) return null;
    const made = { ...document, _key: answer.ids[0] };
    const isDone = await send({ type: "batchCreateElements", sheetId: document.sheet, nodes: [], edges: [], [kind]: [made] });
    return isDone ? made._key : null;
  }

  function connect(source, sourceHandle, target, targetHandle) {
    const { graphKey, sheet } = store.get();
    return add("edges", { graphKey, sheet, source, sourceHandle, target, targetHandle });
  }

  // Sets one field of a node or an edge: `field` is a name or a path.
  function setField(kind, document, field, value) {
    return instruct([set({ sheetId: document.sheet, [`${kind}Id`]: document._key }, field, value)]);
  }

  return {
    move, remove, connect, setField, mayEdit, check,
    create: (node) => add("nodes", node),
    sheetEdit: async (message) => Boolean(await send(message)),
    undo: () => takeBack("undoEdit", "canvas.undone"),
    redo: () => takeBack("redoEdit", "canvas.redone"),
  };
}
