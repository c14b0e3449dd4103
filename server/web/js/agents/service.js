// The agent endpoints of the service.

const path = (...parts) => `/api/agents/${parts.map(encodeURIComponent).join("/")}`;

// Agents with state, health and what is wrong with them.
export const listAgents = async (api) => (await api.get("/api/agents")).agents;

// An agent with its document (of a version, by default the current one) and the versions that are kept.
export const getAgent = (api, id, version) => api.get(path(id), { version });

// Checks a document; answers `{warnings}`, and refuses one that has errors. Nothing is stored.
export const checkDocument = (api, document) => api.post("/api/agents/check", { document }, { isRead: true });

// Stores a document as a new version; `version` is the one that was looked at, 0 for a new agent.
export const putDocument = (api, id, version, document) => api.put(path(id), { document }, { headers: { "If-Match": String(version) } });

export const removeAgent = (api, id) => api.delete(path(id));

// Starts or stops an agent, or makes a version current.
export const actOnAgent = (api, id, action, body) => api.post(path(id, action), body);

// Tries a tool of a document, stored or not: `{document, tool, args, ctx, dryRun}`. Answers the requests, secrets masked, and
// where they were sent what came back and what the model gets.
export const tryTool = (api, given) => api.post("/api/agent-trials", given, given.dryRun ? { isRead: true } : { isLong: true });

// What is owed to somebody's API; `filter` may hold agentId and callId.
export const listDeliveries = async (api, filter) => (await api.get("/api/deliveries", filter)).deliveries;

export const retryDelivery = (api, id) => api.post(`/api/deliveries/${encodeURIComponent(id)}/retry`);
