// The address says what is shown, and what is shown is written back:
// #graph=KEY&sheet=ID&panel=NAME&node=KEY&thread=ID, and one of approval, run, call, agent and trace; all may be left out.

import { PANELS } from "./panels.js";

// What an address can open: its part of the store, and the panel that shows it (null: any).
const DETAILS = {
  approval: { part: "reviewShown", panel: "review" },
  run: { part: "runShown", panel: "automations" },
  call: { part: "callShown", panel: "calls" },
  agent: { part: "agentShown", panel: "agents" },
  trace: { part: "traceShown", panel: null },
  thread: { part: "threadId", panel: "chat" },
};
const OPENED = ["run", "call", "agent", "trace"]; // these cover what was there before; Back closes them

export function readRoute(hash = location.hash) {
  const found = new URLSearchParams(hash.slice(1));
  const details = Object.fromEntries(Object.keys(DETAILS).map((name) => [name, found.get(name) || null]));
  const implied = Object.keys(DETAILS).find((name) => details[name] && DETAILS[name].panel);
  const panel = [found.get("panel"), DETAILS[implied]?.panel].find((name) => ["canvas", ...PANELS].includes(name)) ?? null;
  return { graphKey: found.get("graph"), sheet: found.get("sheet"), panel, node: found.get("node"), ...details };
}

// Returns the address of what the store says is shown.
export function addressOf(state) {
  if (!state.graphKey && !state.isAside) return "#";
  const { graphKey, sheet, panel, selection, nodes } = state;
  const node = selection.length === 1 && nodes.has(selection[0]) ? selection[0] : null;
  const facts = { graph: graphKey, sheet: graphKey && sheet, panel, node, ...shownIn(state, Object.keys(DETAILS)) };
  return `#${new URLSearchParams(Object.entries(facts).filter(([, value]) => value))}`;
}

function shownIn(state, names) {
  const shown = names.filter((name) => [null, state.panel].includes(DETAILS[name].panel));
  return Object.fromEntries(shown.map((name) => [name, state[DETAILS[name].part]]));
}

// What Back goes by: the graph, the panel, and what is opened in it. Sheets, nodes and rows that are gone along are none.
function placeOf(state) {
  return state.graphKey || state.isAside ? JSON.stringify([state.graphKey, state.panel, shownIn(state, OPENED)]) : "";
}

export function createRouter({ store, live, canvas }) {
  let shown = null; // the place of this entry of the history
  let isPlanned = false;
  let isLeaving = false; // the browser goes back by an entry

  // Shows what a route names. Resolves when it is there.
  async function follow(route) {
    const opened = place(route);
    if (route.panel) store.set({ panel: route.panel });
    store.set(detailsOf(route));
    settle();
    await opened;
    const { selection, graphState } = store.get();
    if (!route.node || graphState !== "ready" || (selection.length === 1 && selection[0] === route.node)) return;
    canvas().zoomTo(route.node);
    if (route.panel) store.set({ panel: route.panel }); // narrow screens showed the canvas instead
    settle();
  }

  function place({ graphKey, sheet, panel, thread }) {
    const state = store.get();
    store.set({ isAside: !graphKey && panel !== null });
    if (!graphKey) return state.graphKey ? live.close() : undefined;
    if (graphKey !== state.graphKey) return live.open(graphKey, sheet, thread);
    if (sheet && sheet !== state.sheet) live.showSheet(sheet);
    return undefined;
  }

  // What is not in the address of a panel is closed in it; a conversation stays.
  function detailsOf(route) {
    const { panel } = store.get();
    const named = Object.entries(DETAILS).filter(([name, one]) => route[name] || (name !== "thread" && [null, panel].includes(one.panel)));
    return Object.fromEntries(named.map(([name, { part }]) => [part, route[name]]));
  }

  // Writes the address of what was followed into this entry of the history.
  function settle() {
    const state = store.get();
    const before = shown;
    shown = placeOf(state);
    history.replaceState(history.state ?? { from: before }, "", addressOf(state));
  }

  function plan() {
    if (!isPlanned) queueMicrotask(write); // what changes together is one entry
    isPlanned = true;
  }

  // A place is a new entry of the history, unless the entry before is it: then the browser goes back.
  function write() {
    isPlanned = false;
    if (isLeaving) return;
    const state = store.get();
    const now = placeOf(state);
    if (now === shown) history.replaceState(history.state, "", addressOf(state));
    else if (history.state?.from === now) {
      isLeaving = true;
      history.back();
    } else history.pushState({ from: shown }, "", addressOf(state));
    shown = now;
  }

  function changed() {
    if (!isLeaving) return follow(readRoute());
    isLeaving = false;
    return write(); // what was shown meanwhile
  }

  addEventListener("hashchange", changed);
  store.on(addressOf, plan);
  return { follow };
}
