// The review endpoints of the service.

const path = (...parts) => parts.map(encodeURIComponent).join("/");

// Lists approvals; `filter` may hold graphKey, status, asker and limit.
export async function listApprovals(api, filter = {}) {
  const query = new URLSearchParams(Object.entries(filter).filter(([, value]) => value !== undefined && value !== ""));
  return (await api.get(`/api/approvals?${query}`)).approvals;
}

export const getApproval = (api, id) => api.get(`/api/approvals/${path(id)}`);

// Approve; with `editedAction` that is carried out in place of what was proposed.
export const approve = (api, id, { editedAction, feedback = "" } = {}) =>
  api.post(`/api/approvals/${path(id)}/decision`, { verdict: "approve", ...(editedAction ? { editedAction } : {}), feedback });

export const reject = (api, id, feedback) =>
  api.post(`/api/approvals/${path(id)}/decision`, { verdict: "reject", feedback });

// Takes back an applied change, or with `turn` all of its turn; an undo is taken back in the same way.
export const undo = (api, graphKey, approvalId, { turn = false } = {}) => api.post(`/api/graphs/${path(graphKey)}/undo`, { approvalId, turn });

// The audit log of a graph, newest first. For reviewers.
export async function auditEntries(api, graphKey, limit = 200) {
  const query = new URLSearchParams({ limit: String(limit), ...(graphKey ? { graphKey } : {}) });
  return (await api.get(`/api/audit?${query}`)).entries;
}
