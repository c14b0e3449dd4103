// The agents of the workspace, as the store knows them: read when something looks at them.

import { ApiError } from "../api.js";
import { listAgents } from "./service.js";

const LOOKED_AT = ["agents", "calls", "chat"]; // panels

export function mountAgentsKnown(app) {
  const { store, api } = app;
  app.agents = { load };
  for (const part of ["me", "lang"]) store.on(part, load);
  store.on("panel", (now) => LOOKED_AT.includes(now) && load());
  load();

  async function load() {
    if (!store.get().me) return;
    try {
      store.set({ agents: await listAgents(api), agentsError: null });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      store.set({ agentsError: error });
    }
  }
}
