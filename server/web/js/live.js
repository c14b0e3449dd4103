// The graph that is open: read once, then kept as the server has it by what editors send, in the server's order.
//
// The server tells a connection only of the sheet it is registered on. For each sheet the time up to which it is
// known is kept, so that changing sheets and coming back ask for exactly what was missed.

import { applyInstruction } from "./canvas/instructions.js";

const EDITS = ["applyInstructionToGraph", "batchCreateElements", "batchDeleteElements", "createSheet", "renameSheet", "deleteSheet", "renameGraph"];
const PEOPLE_MS = 10_000;
const EMBEDDING_MS = 2000; // between looks at how many nodes are left to embed
const ELSEWHERE_MS = 4000;
const ELSEWHERE = "busy"; // what a server answers that does not hold the graph

export function createLive({ store, api, socket, t, toast, path, ApiError, onGone }) {
  let opening = 0;
  let times = {}; // sheet -> timestamp up to which it is known
  let registered = null; // {graphKey, sheet} on this connection
  let waiting = null; // messages that came while the graph is read
  let again = 0; // the next look at who is here
  let asking = Promise.resolve();
  let stored = null; // the stored revision whose content is known, but for unsaved edits

  // Opens a graph: shows it, and joins its editors. Resolves when it is shown or failed.
  async function open(graphKey, sheet, threadId = null) {
    const turn = ++opening;
    registered = stored = null;
    times = {};
    store.set({
      past: null, graphKey, graphState: "loading", graphError: null, graph: null, sheet: sheet ?? "0", nodes: new Map(),
      edges: new Map(), nodeTypes: new Map(), selection: [], editors: [], embedding: 0, saveStatus: null, threadId, notEditable: null,
    });
    try {
      waiting = [];
      if (socket.isOpen) await join(0);
      if (turn !== opening) return;
      await read(turn);
      if (!registered && socket.isOpen && !store.get().notEditable) await rejoin();
    } catch (error) {
      if (turn === opening) store.set({ graphState: "failed", graphError: error });
    }
  }

  function close() {
    opening += 1;
    const { graphKey } = store.get();
    if (registered && socket.isOpen) socket.request({ type: "disconnedUserOnGraph", graphKey }).catch(() => {});
    registered = null;
    waiting = null;
    store.set({
      past: null, graphKey: null, graph: null, graphState: "none", nodes: new Map(), edges: new Map(), selection: [], editors: [], embedding: 0,
      saveStatus: null, threadId: null, notEditable: null,
    });
  }

  // Reads the whole graph, and then takes in what came meanwhile.
  async function read(turn) {
    const { graphKey } = store.get();
    waiting ??= [];
    const view = await api.get(path`/api/graphs/${graphKey}/view`, null, { isLong: true });
    if (turn !== opening || store.get().past) return;
    const sheets = view.graph.sheetsList ?? { 0: "main" };
    const { sheet } = store.get();
    if (!registered) stored = view.graph.revision;
    times = Object.fromEntries(Object.keys(sheets).map((key) => [key, view.timestamp]));
    store.set({
      graph: view.graph,
      nodes: new Map(view.nodes.map((node) => [node._key, node])),
      edges: new Map(view.edges.map((edge) => [edge._key, edge])),
      nodeTypes: new Map(view.types.map((type) => [type.type, type])),
      sheet: Object.hasOwn(sheets, sheet) ? sheet : Object.keys(sheets)[0],
      graphState: "ready",
      graphError: null,
    });
    const came = waiting ?? [];
    waiting = null;
    for (const message of came) if (message.timestamp > view.timestamp) take(message);
  }

  async function join(fromTimestamp) {
    const { graphKey, sheet, me } = store.get();
    registered = { graphKey, sheet };
    try {
      const answer = await socket.request({
        type: "registerUserOnGraph", name: me?.username ?? "", sheetId: sheet, graphKey, fromTimestamp,
      });
      status(answer);
      store.set({ notEditable: null });
      people();
      return answer;
    } catch (error) {
      registered = null;
      if (error.code === "not_found" && store.get().graphState === "ready") gone();
      else if (error.code !== "network") cannotEdit(error);
      return null;
    }
  }

  // Somebody deleted the graph that is open.
  function gone() {
    toast("warn", t("graphs.gone"));
    close();
    onGone();
  }

  // The graph is shown as it is stored, and may not be edited by hand here. `isElsewhere`: another server holds it.
  function cannotEdit(error) {
    const { notEditable } = store.get();
    const isElsewhere = error.code === ELSEWHERE;
    if (notEditable?.isElsewhere === isElsewhere && notEditable.reason === error.message) return;
    store.set({ saveStatus: null, editors: [], notEditable: { isElsewhere, reason: error.message } });
  }

  // Without the graph's editors no news come: what is stored is looked at now and then, and whether it is free.
  async function lookAgain() {
    const { notEditable, graphKey, graph, graphState } = store.get();
    if (!notEditable || graphState !== "ready" || !socket.isOpen || document.visibilityState !== "visible") return;
    await rejoin();
    if (!store.get().notEditable || graphKey !== store.get().graphKey) return;
    try {
      const { revision } = await api.get(path`/api/graphs/${graphKey}`);
      if (revision !== graph?.revision && graphKey === store.get().graphKey) await refresh();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // the next look may do better
    }
  }

  // Joins again after the connection came back or the sheet changed, and learns what was missed. Where the server cannot
  // say all of it, the graph is read again, unless the stored revision is the one that is known already.
  function rejoin() {
    asking = asking.then(async () => {
      const { graphKey, sheet, graphState } = store.get();
      if (!graphKey || graphState !== "ready" || !socket.isOpen) return;
      const turn = opening;
      const [known, hadUnsaved] = [stored, store.get().saveStatus?.hasUnsavedChanges];
      const answer = await join(times[sheet] ?? 0);
      if (!answer || turn !== opening) return;
      const isSame = answer.revision === known && !hadUnsaved && !answer.hasUnsavedChanges;
      if (answer.missingComplete === false && !isSame) await refresh();
      else if (answer.missingComplete === false) times = Object.fromEntries(Object.keys(times).map((key) => [key, answer.timestamp]));
      else for (const message of answer.missingMessages ?? []) take(message);
    }).catch((error) => error instanceof ApiError || reportError(error));
    return asking;
  }

  // Shows the graph as it was, until null is given: then as it is. What comes meanwhile is read again after it.
  function look(past) {
    const { graph, sheet, past: now } = store.get();
    if (!past) return now ? (store.set({ past: null }), refresh()) : null;
    const sheets = past.graph.sheetsList;
    return store.set({
      past: past.timestamp, graph: { ...graph, sheetsList: sheets }, sheet: Object.hasOwn(sheets, sheet) ? sheet : Object.keys(sheets)[0],
      nodes: new Map(past.nodes.map((node) => [node._key, node])), edges: new Map(past.edges.map((edge) => [edge._key, edge])),
    });
  }

  async function refresh() {
    const turn = opening;
    if (store.get().past) return;
    try {
      await read(turn);
    } catch (error) {
      waiting = stored = null;
      if (turn === opening && error.code !== "network") toast("error", error.message);
    }
  }

  function showSheet(sheet) {
    const { graph } = store.get();
    if (!graph || !Object.hasOwn(graph.sheetsList ?? {}, sheet)) return;
    store.set({ sheet, selection: [] });
    rejoin();
  }

  // Sends an edit and takes it in when the server has accepted it. Rejects with ApiError: then nothing was done.
  async function edit(message) {
    if (!registered) await rejoin();
    if (!registered) throw new ApiError({ code: "network", message: t(store.get().notEditable ? "canvas.elsewhere" : "canvas.offline"), retryable: true });
    const answer = await socket.request(message);
    take(answer);
    return answer;
  }

  // Takes in a message of the server's order: another's, or the answer to one of this page's.
  function take(message) {
    if (store.get().past) {
      store.set({ changedSince: message.timestamp }); // all of it is read again
      return;
    }
    if (waiting) {
      waiting.push(message);
      return;
    }
    try {
      TAKE[message.type]?.(message);
    } catch (error) {
      console.warn(error.message);
      refresh();
      return;
    }
    if (message.timestamp) stamp(message);
  }

  function stamp({ timestamp }) {
    const { sheet } = store.get();
    if (registered?.sheet === sheet) times[sheet] = Math.max(times[sheet] ?? 0, timestamp);
  }

  const TAKE = {
    applyInstructionToGraph({ instructions }) {
      const changed = {}; // copies of those that an instruction is about
      for (const { i, nodeId, edgeId } of instructions) {
        const [part, key] = nodeId ? ["nodes", nodeId] : ["edges", edgeId];
        const map = (changed[part] ??= new Map(store.get()[part]));
        if (!map.has(key)) throw new Error(`unknown ${key}`);
        map.set(key, applyInstruction(map.get(key), i));
      }
      store.set(changed);
    },
    batchCreateElements(message) {
      const nodes = new Map(store.get().nodes);
      const edges = new Map(store.get().edges);
      for (const node of message.nodes ?? []) nodes.set(node._key, node);
      for (const edge of message.edges ?? []) edges.set(edge._key, edge);
      store.set({ nodes, edges });
    },
    batchDeleteElements({ nodeKeys = [], edgeKeys = [] }) {
      const gone = new Set(nodeKeys);
      const cut = new Set(edgeKeys);
      const { nodes, edges, selection } = store.get();
      store.set({
        nodes: new Map([...nodes].filter(([key]) => !gone.has(key))),
        edges: new Map([...edges].filter(([key, edge]) => !cut.has(key) && !gone.has(edge.source) && !gone.has(edge.target))),
        selection: selection.filter((key) => !gone.has(key) && !cut.has(key)),
      });
    },
    createSheet: ({ key, name }) => sheets({ [key]: name }),
    renameSheet: ({ key, name }) => sheets({ [key]: name }),
    renameGraph: ({ name }) => store.set({ graph: { ...store.get().graph, name } }),
    deleteSheet({ key }) {
      const { graph, sheet, nodes, edges } = store.get();
      const { [key]: _, ...left } = graph.sheetsList;
      store.set({
        graph: { ...graph, sheetsList: left },
        nodes: new Map([...nodes].filter(([, node]) => node.sheet !== key)),
        edges: new Map([...edges].filter(([, edge]) => edge.sheet !== key)),
      });
      if (sheet === key) showSheet(Object.keys(left)[0]);
    },
  };

  function sheets(more) {
    const { graph } = store.get();
    store.set({ graph: { ...graph, sheetsList: { ...graph.sheetsList, ...more } } });
  }

  function status({ revision, lastSaveTime, hasUnsavedChanges, autoSaveEnabled, error = null }) {
    stored = revision;
    store.set({ saveStatus: { lastSaveTime, hasUnsavedChanges, autoSaveEnabled, error } });
  }

  // Who else is on the graph. The protocol does not announce people; asking now and then is enough to greet them.
  async function people() {
    const { graphKey } = store.get();
    if (!graphKey || document.visibilityState !== "visible") return;
    try {
      const { editors, embedding } = await api.get(path`/api/graphs/${graphKey}/editors`);
      if (store.get().graphKey !== graphKey) return;
      store.set({ editors, embedding });
      clearTimeout(again);
      if (embedding) again = setTimeout(people, EMBEDDING_MS);
    } catch {
      // the next request of the person says it
    }
  }

  for (const type of EDITS) {
    // Answers to this page's own requests carry their _id and are taken in by edit().
    socket.on(type, (message) => message._id === undefined && message.graphKey === store.get().graphKey && take(message));
  }
  socket.on("saveStatus", (message) => message._id === undefined && message.graphKey === store.get().graphKey && status(message));
  socket.on("open", () => {
    if (store.get().graphState === "failed") open(store.get().graphKey, store.get().sheet);
    else rejoin();
  });
  socket.on("close", () => (registered = null));
  setInterval(() => socket.isOpen && people(), PEOPLE_MS);
  setInterval(lookAgain, ELSEWHERE_MS);

  return { open, close, refresh, look, lookAgain, showSheet, edit, get isJoined() { return registered !== null; } };
}
