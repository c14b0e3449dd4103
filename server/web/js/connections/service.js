// The endpoints of connections with running n8n and Node-RED servers.

const one = (name) => `/api/connections/${encodeURIComponent(name)}`;

export const listConnections = async (api) => (await api.get("/api/connections")).connections;

// A connection with its workflows: where each stands, and how far a synchronisation is.
export const getConnection = (api, name) => api.get(one(name));

// Connects; `isLong`: the server is asked first.
export const addConnection = (api, draft) => api.post("/api/connections", draft, { isLong: true });

export const removeConnection = (api, name) => api.delete(one(name));

export const syncConnection = (api, name) => api.post(`${one(name)}/sync`);

// What changed on both sides since the last synchronisation: `{here, there}` as previews.
export const compareWorkflow = (api, name, workflow) => api.get(`${one(name)}/difference`, { workflow }, { isLong: true });

// The workflows that a graph is connected with.
export const listLinks = async (api, graphKey) => (await api.get(`/api/graphs/${encodeURIComponent(graphKey)}/connections`)).workflows;

const PLANS = { push: "pushes", publish: "publications", create: "workflows" };

// Works out what would be written to the server, published there or created; null where that would change nothing.
export const planPush = async (api, connection, graph, action) => (await api.post(`${one(connection)}/${PLANS[action]}`, { graph }, { isLong: true })).push ?? null;

// What was written to the server of a graph's workflow, and what waits to be; newest first.
export const listPushes = async (api, graph) => (await api.get("/api/pushes")).pushes.filter((push) => push.graph === graph);

// Approves, rejects or undoes a push; of an undo, what would be written.
export const actOnPush = (api, id, action) => api.post(`/api/pushes/${encodeURIComponent(id)}/${action}`, undefined, { isLong: true });
