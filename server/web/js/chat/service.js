// The conversation endpoints of the service.

const LISTED = 100;

// A person's own conversations, newest first; of one graph or of all.
export async function listThreads(api, graphKey, limit = LISTED) {
  return (await api.post("/api/ai/threads", { limit, ...(graphKey ? { graphKey } : {}) }, { isRead: true })).threads;
}

// A conversation: `{threadId, conversationHistory, status, pendingInterrupt?}`.
export const getMessages = (api, threadId) => api.get(`/api/ai/thread/${encodeURIComponent(threadId)}/messages?features=questions`);

// Ends a conversation with an agent; returns what is known of the agent then.
export const endThread = (api, threadId) => api.post(`/api/ai/thread/${encodeURIComponent(threadId)}/end`);

export const deleteThread = (api, threadId) => api.delete(`/api/ai/thread/${encodeURIComponent(threadId)}`);

export const renameThread = (api, threadId, title) => api.call("PATCH", `/api/ai/thread/${encodeURIComponent(threadId)}`, { body: { title } });

// The keys of a person's conversations in which words were said.
export async function findThreads(api, words) {
  const { hits } = await api.get("/api/find", { q: words.slice(0, 200), limit: 50 });
  return hits.filter((hit) => hit.kind === "thread").map((hit) => hit.key);
}

// What was said, as a file to read. Rejects with ApiError.
export async function readExport({ session, ApiError, t }, threadId) {
  const headers = session.token ? { Authorization: `Bearer ${session.token}` } : {};
  const answer = await fetch(`/api/ai/thread/${encodeURIComponent(threadId)}/export`, { headers }).catch(() => null);
  if (!answer?.ok) throw new ApiError({ code: "network", message: answer ? t("error.status", { status: answer.status }) : t("error.network") });
  return answer.blob();
}
