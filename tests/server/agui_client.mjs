// Talks with the service as a front end does: a run, a reload in another tab, and the answers to what waits.
import { buildResumeArray, HttpAgent } from "@ag-ui/client";

const { url, token } = JSON.parse(process.argv[2]);
const headers = { Authorization: `Bearer ${token}`, "X-Nodius-Client": "ag-ui-client/1.0" };
const threadId = "thread-of-the-browser";

const said = (id, content) => ({ id, role: "user", content });

const agent = new HttpAgent({ url, threadId, headers });
agent.addMessage(said("m1", "What happens when fetching fails?"));
await agent.runAgent();
const afterOne = structuredClone(agent.messages);
agent.addMessage(said("m2", "Warn, and tidy up"));
await agent.runAgent();
const waiting = structuredClone(agent.pendingInterrupts);

let refused = "";
try {
  await agent.runAgent();
} catch (error) {
  refused = String(error);
}

const reloaded = new HttpAgent({ url, threadId, headers });
await reloaded.runAgent();
const found = structuredClone(reloaded.pendingInterrupts);
const messagesFound = structuredClone(reloaded.messages);
const [first, second] = found;
const resume = buildResumeArray(found, {
  [first.id]: { status: "resolved", payload: { approved: true } },
  [second.id]: { status: "resolved", payload: { approved: false, feedback: "leave it" } },
});
await reloaded.runAgent({ resume });
const here = new HttpAgent({ url, threadId, headers });
await here.runAgent();
console.log(
  JSON.stringify({
    afterOne,
    waiting,
    refused,
    found,
    messagesFound,
    messages: reloaded.messages,
    open: reloaded.pendingInterrupts,
    state: reloaded.state,
    later: here.messages,
  }),
);
