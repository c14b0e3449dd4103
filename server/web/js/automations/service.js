// The automation endpoints of the service.

// A run's id holds slashes, which stay.
const path = (id) => String(id).split("/").map(encodeURIComponent).join("/");

// Automations with their next times, last run, waiting proposals and what they cost today; of one graph or of all.
export const listAutomations = async (api, graphKey) => (await api.get("/api/automations", { graphKey })).automations;

export const getAutomation = (api, id) => api.get(`/api/automations/${path(id)}`);

export const addAutomation = (api, draft) => api.post("/api/automations", draft);

// Changes an automation; `changes.version` is the one that was looked at.
export const editAutomation = (api, id, changes) => api.post(`/api/automations/${path(id)}`, changes);

export const removeAutomation = (api, id) => api.delete(`/api/automations/${path(id)}`);

// Runs, enables or pauses an automation, or takes it over.
export const actOn = (api, id, action) => api.post(`/api/automations/${path(id)}/${action}`);

// Runs an automation without storing anything: `{run, messages, proposals}`. Aborting `signal` stops it.
export const tryAutomation = (api, id, signal) => api.post(`/api/automations/${path(id)}/trial`, undefined, { isLong: true, signal });

export const listTemplates = async (api) => (await api.get("/api/automation-templates")).templates;

// What a schedule means: `{schedule, timezone, nextTimes, next}`.
export const previewSchedule = (api, schedule) => api.post("/api/schedules/preview", schedule, { isRead: true });

// Runs, newest first: of an automation, or of a graph.
export const listRuns = async (api, automationId, limit = 20) => (await api.get(`/api/automations/${path(automationId)}/sessions`, { limit })).sessions;

export const listRunsOf = async (api, graphKey, limit = 50) => (await api.get("/api/sessions", { graphKey, limit })).sessions;

export const getRun = (api, id) => api.get(`/api/sessions/${path(id)}`);

// Stops, resumes or confirms a run, or copies it into a conversation.
export const actOnRun = (api, id, action, body) => api.post(`/api/sessions/${path(id)}/${action}`, body);
