// The call endpoints of the service.

const path = (...parts) => `/api/calls/${parts.map(encodeURIComponent).join("/")}`;

// Calls, newest first: `{calls, cursor?}`; `filter` may hold agent, status and cursor.
export const listCalls = (api, filter) => api.get("/api/calls", filter);

export const getCall = (api, id) => api.get(path(id));

export const endCall = (api, id) => api.post(path(id, "end"));

// Takes a call out of what is stored, its words, numbers and values.
export const forgetCall = (api, id) => api.delete(path(id));

// A token for one call from this browser: `{callId, callSid, token, url}`.
export const askToTalk = (api, agentId) => api.post(`/api/agents/${encodeURIComponent(agentId)}/talk`);
