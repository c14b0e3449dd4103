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
