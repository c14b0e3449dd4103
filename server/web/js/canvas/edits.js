// This person's own live edits: sent, shown when they are accepted, and kept so that they can be undone.

import { nodeName } from "./model.js";

const BATCH = 20; // instructions that one message may carry
const REMEMBERED = 200;

export function createEdits({ store, live, socket, t, toast, ApiError }) {
  let done = [];
  let undone = [];
  let last = Promise.resolve();

  const isElsewhere = () => Boolean(store.get().notEditable?.isElsewhere);
  const mayEdit = () => ["editor", "reviewer", "admin"].includes(store.get().me?.role) && !isElsewhere();

  // Says why nothing can be edited now, or returns true.
  function check() {
    if (isElsewhere()) toast("warn", t("canvas.elsewhere"));
    else if (!mayEdit()) toast("warn", t("canvas.read_only"));
    else if (store.get().connection !== "open") toast("warn", t("canvas.offline"));
    else return true;
    return false;
  }

  // Carries out steps [{message, back}] one after the other; what fails is said, and the rest is left.
  function carryOut(steps) {
    const work = last.then(async () => {
      const kept = [];
      try {
        for (const step of steps) {
          await live.edit(step.message);
          kept.push(step);
        }
        return { kept, error: null };
      } catch (error) {
        return { kept, error };
      }
    });
    last = work.catch(() => {});
    return work;
  }

  async function run(what, steps) {
    if (!steps.length || !check()) return false;
    const { kept, error } = await carryOut(steps);
    if (kept.length) {
      done = [...done.slice(1 - REMEMBERED), { what, steps: kept, graphKey: store.get().graphKey }];
      undone = [];
    }
    if (error) refused(error);
    return !error;
  }

  function refused(error) {
    if (!(error instanceof ApiError)) throw error;
    toast("error", t("canvas.edit_refused", { reason: error.message }));
  }

  async function step(from, to, said) {
    const { graphKey } = store.get();
    const entry = from().findLast((one) => one.graphKey === graphKey);
    if (!entry) return toast("info", t("canvas.nothing_to_undo"), { action: { label: t("canvas.approved_changes"), run: () => store.set({ panel: "review", reviewView: "history" }) } });
    if (!check()) return undefined;
    const { kept, error } = await carryOut(entry.steps.toReversed().map(({ message, back }) => ({ message: back, back: message })));
    if (error) return refused(error); // a later change is in the way: it stays as it is
    from((list) => list.filter((one) => one !== entry));
    to((list) => [...list, { ...entry, steps: kept }]);
    return toast("ok", t(said, { what: entry.what }));
  }

  const doneList = (change) => (change ? (done = change(done)) : done);
  const undoneList = (change) => (change ? (undone = change(undone)) : undone);

  // Instructions on nodes or edges, with those that put back what was.
  function instructions(pairs) {
    const steps = [];
    for (let i = 0; i < pairs.length; i += BATCH) {
      const part = pairs.slice(i, i + BATCH);
      steps.push({
        message: { type: "applyInstructionToGraph", instructions: part.map((pair) => pair.ask) },
        back: { type: "applyInstructionToGraph", instructions: part.map((pair) => pair.back).toReversed() },
      });
    }
    return steps;
  }

  function set(place, field, before, after) {
    const path = Array.isArray(field) ? field : [field];
    const back = before === undefined ? { o: 2, p: path } : { o: 1, p: path, v: before };
    return { ask: { ...place, i: { o: 1, p: path, v: after } }, back: { ...place, i: back } };
  }

  // Moves nodes: [{key, x, y}] in canvas coordinates.
  function move(moves) {
    const { nodes, nodeTypes } = store.get();
    const pairs = [];
    for (const { key, x, y } of moves) {
      const node = nodes.get(key);
      if (!node) continue;
      const place = { sheetId: node.sheet, nodeId: key, animatePos: true };
      if (x !== node.posX) pairs.push(set(place, "posX", node.posX ?? 0, x));
      if (y !== node.posY) pairs.push(set(place, "posY", node.posY ?? 0, y));
    }
    const first = nodes.get(moves[0]?.key);
    const what = t("edit.move", { n: moves.length, name: first ? nodeName(first, nodeTypes) : "" });
    return run(what, instructions(pairs));
  }

  // Deletes nodes with their edges, and edges, of the sheet that is shown.
  function remove(keys) {
    const { nodes, edges, sheet, nodeTypes } = store.get();
    const nodeKeys = keys.filter((key) => nodes.has(key));
    const gone = new Set(nodeKeys);
    const edgeKeys = keys.filter((key) => edges.has(key) && !nodes.has(key));
    const cut = [...edges.values()].filter((edge) => gone.has(edge.source) || gone.has(edge.target) || edgeKeys.includes(edge._key));
    const first = nodes.get(nodeKeys[0]);
    const name = first ? nodeName(first, nodeTypes) : (cut[0]?.label ?? cut[0]?._key ?? "");
    return run(t("edit.delete", { n: keys.length, name }), [{
      message: { type: "batchDeleteElements", sheetId: sheet, nodeKeys, edgeKeys: edgeKeys.filter((key) => !gone.has(edges.get(key).source) && !gone.has(edges.get(key).target)) },
      back: { type: "batchCreateElements", sheetId: sheet, nodes: nodeKeys.map((key) => nodes.get(key)), edges: cut },
    }]);
  }

  // Adds a node without its key; resolves to the key that it got, or null.
  async function create(node, name) {
    if (!check()) return null;
    const answer = await socket.request({ type: "generateUniqueId", ids: [0] }).catch(refused);
    if (!answer) return null;
    const made = { ...node, _key: answer.ids[0] };
    const isDone = await run(t("edit.create", { name }), [{
      message: { type: "batchCreateElements", sheetId: node.sheet, nodes: [made], edges: [] },
      back: { type: "batchDeleteElements", sheetId: node.sheet, nodeKeys: [made._key], edgeKeys: [] },
    }]);
    return isDone ? made._key : null;
  }

  async function connect(source, sourceHandle, target, targetHandle) {
    if (!check()) return false;
    const { graphKey, sheet, nodes, nodeTypes } = store.get();
    const answer = await socket.request({ type: "generateUniqueId", ids: [0] }).catch(refused);
    if (!answer) return false;
    const edge = { _key: answer.ids[0], graphKey, sheet, source, sourceHandle, target, targetHandle };
    return run(t("edit.connect", { name: nodeName(nodes.get(source), nodeTypes) }), [{
      message: { type: "batchCreateElements", sheetId: sheet, nodes: [], edges: [edge] },
      back: { type: "batchDeleteElements", sheetId: sheet, nodeKeys: [], edgeKeys: [edge._key] },
    }]);
  }

  // Sets one field of a node or an edge: `field` is a name or a path.
  function setField(kind, document, field, after, what) {
    const path = [field].flat();
    const before = path.reduce((value, part) => value?.[part], document);
    const place = kind === "node" ? { sheetId: document.sheet, nodeId: document._key } : { sheetId: document.sheet, edgeId: document._key };
    return run(what, instructions([set(place, path, before, after)]));
  }

  const sheetEdit = (message, back) => run(message.name ?? "", [{ message, back }]);

  store.on("graphKey", () => (undone = []));
  return {
    move, remove, create, connect, setField, sheetEdit, mayEdit, check,
    undo: () => step(doneList, undoneList, "canvas.undone"),
    redo: () => step(undoneList, doneList, "canvas.redone"),
    canUndo: () => done.some((one) => one.graphKey === store.get().graphKey),
  };
}
