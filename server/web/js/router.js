// The address: #graph=KEY&sheet=ID&panel=NAME says what is shown, and what is shown is written back; one with
// &approval=ID opens that proposal.

import { PANELS } from "./panels.js";

export function readRoute() {
  const found = new URLSearchParams(location.hash.slice(1));
  const panel = found.get("panel");
  return { graphKey: found.get("graph"), sheet: found.get("sheet"), panel: ["canvas", ...PANELS].includes(panel) ? panel : null, node: found.get("node"), thread: found.get("thread"), approval: found.get("approval") };
}

export function createRouter({ store, live, canvas }) {
  // Resolves when what it shows is there.
  async function follow(route) {
    await place(route);
    if (route.approval) store.set({ panel: "review", reviewShown: route.approval });
  }

  async function place(route) {
    const state = store.get();
    if (route.panel && route.panel !== state.panel) store.set({ panel: route.panel });
    if (!route.graphKey) {
      if (state.graphKey) live.close();
    } else if (route.graphKey !== state.graphKey) {
      return live.open(route.graphKey, route.sheet, route.thread).then(() => route.node && canvas().zoomTo(route.node));
    } else if (route.sheet && route.sheet !== state.sheet) live.showSheet(route.sheet);
    if (route.thread && route.graphKey === state.graphKey) store.set({ threadId: route.thread });
  }

  function address({ graphKey, sheet, panel }) {
    if (!graphKey) return "#";
    return `#${new URLSearchParams({ graph: graphKey, sheet, panel })}`;
  }

  function write(state, { push }) {
    const wanted = address(state);
    if (wanted === (location.hash || "#")) return;
    history[push ? "pushState" : "replaceState"](null, "", wanted);
  }

  addEventListener("hashchange", () => follow(readRoute()));
  store.on("graphKey", (_, earlier, state) => write(state, { push: earlier !== null || state.graphKey !== readRoute().graphKey }));
  store.on("sheet", (_, __, state) => write(state, { push: false }));
  store.on("panel", (_, __, state) => write(state, { push: false }));
  return { follow, address };
}
