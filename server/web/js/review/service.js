// The review endpoints of the service.

const path = (...parts) => parts.map(encodeURIComponent).join("/");

// `{approvals, conflicts}`; `filter` may hold graphKey, threadId, status, asker and limit.
export const listApprovals = (api, filter = {}) => api.get("/api/approvals", filter);

export const getApproval = (api, id) => api.get(`/api/approvals/${path(id)}`);

// Approve; with `editedAction` that is carried out in place of what was proposed.
export const approve = (api, id, { editedAction, feedback = "" } = {}) =>
  api.post(`/api/approvals/${path(id)}/decision`, { verdict: "approve", ...(editedAction ? { editedAction } : {}), feedback });

// `{codeErrors: [{key, line}]}`: the code of an edited action that cannot be parsed.
export const checkCode = (api, id, editedAction) => api.post(`/api/approvals/${path(id)}/code`, { editedAction });

export const reject = (api, id, feedback) =>
  api.post(`/api/approvals/${path(id)}/decision`, { verdict: "reject", feedback });

// One verdict on several: `{approvals, refused: [{id, code, message}]}`.
export const decide = (api, approvalIds, verdict, feedback = "") => api.post("/api/approvals/decisions", { approvalIds, verdict, feedback }, { isLong: true });

export const sendComment = (api, id, text) => api.post(`/api/approvals/${path(id)}/comments`, { text });

// Takes back an applied change, or with `turn` all of its turn; an undo is taken back in the same way.
export const undo = (api, graphKey, approvalId, { turn = false } = {}) => api.post(`/api/graphs/${path(graphKey)}/undo`, { approvalId, turn });

// The audit log of a graph, newest first. For reviewers.
export async function auditEntries(api, graphKey, limit) {
  return (await api.get("/api/audit", { limit, graphKey })).entries;
}
