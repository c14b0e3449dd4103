// News of automations and their runs: what the store knows of them, and the one place that knows how such news come.

import { ApiError } from "../api.js";
import { kept } from "../kept.js";
import { listAutomations } from "./service.js";

const SOON_MS = 150; // news that come together are looked at together
const NEWS = ["ai:session_state", "open"];

// Keeps `automations`, `automationsError` and the tab's badge of the store up to date. The panel sets `scope`.
export function mountAutomationNews(app) {
  const { store, socket, api } = app;
  const known = (app.automations = { scope: kept.get("automations.scope") ?? "graph", load });
  let asked = 0;
  socket.on("open", () => socket.request({ type: "ai:sessions" }).catch(() => {})); // asked again with the next connection
  watchRuns(app, load);
  for (const part of ["me", "lang"]) store.on(part, load);
  store.on("graphKey", (_, earlier) => {
    store.set({ automations: null, ...(earlier === null ? {} : { runShown: null }) }); // an address may name a run before there is a graph
    load();
  });
  load();

  async function load() {
    if (!store.get().me) return;
    const mine = ++asked;
    await null; // what changes together is asked for once
    if (mine !== asked) return;
    try {
      const automations = await listAutomations(api, known.scope === "graph" ? store.get().graphKey : null);
      if (mine !== asked) return; // another graph or language meanwhile
      const badges = { ...store.get().badges, automations: automations.reduce((sum, one) => sum + one.decidable, 0) };
      store.set({ automations, automationsError: null, badges });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (mine === asked) store.set({ automationsError: error });
    }
  }
}

// Calls `look` when something of runs may be another. Returns the way to stop.
export function watchRuns({ socket }, look) {
  let timer = 0;
  const now = () => socket.isOpen && document.visibilityState !== "hidden" && look();
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(now, SOON_MS);
  };
  // Conversations send their phases, too.
  const stops = NEWS.map((type) => socket.on(type, (message) => message?.kind !== "chat" && soon()));
  document.addEventListener("visibilitychange", soon);
  return () => {
    clearTimeout(timer);
    stops.forEach((stop) => stop());
    document.removeEventListener("visibilitychange", soon);
  };
}
