// Where the open graph stands to the servers that it is connected with, as the store knows it.

import { ApiError } from "../api.js";
import { listLinks } from "./service.js";

const AGAIN_MS = 10_000; // a server may have changed its workflow
const SOON_MS = 1_000; // after a change here: many may follow one another

export function mountConnectionsKnown(app) {
  const { store, api } = app;
  let timer = 0;
  app.links = { load };
  for (const part of ["graphKey", "lang"]) store.on(part, load);
  store.on("approvals", loadSoon);
  store.on((state) => state.saveStatus?.hasUnsavedChanges === false && state.graph?.revision, loadSoon);
  document.addEventListener("visibilitychange", load);
  load();

  // Where a graph stands changes with it only if it is connected.
  function loadSoon() {
    if (!store.get().links?.length) return;
    clearTimeout(timer);
    timer = setTimeout(load, SOON_MS);
  }

  async function load() {
    clearTimeout(timer);
    const { graphKey, me } = store.get();
    if (!graphKey || !me) return store.set({ links: [] });
    try {
      const links = await listLinks(api, graphKey);
      if (graphKey !== store.get().graphKey) return undefined;
      store.set({ links });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // the next look may do better
    }
    if (store.get().links.length && document.visibilityState !== "hidden") timer = setTimeout(load, AGAIN_MS);
    return undefined;
  }
}
