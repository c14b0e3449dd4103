// The page's start: makes its parts, gives each what it needs, and keeps the address in step with what is shown.

import { ApiError, createApi, path } from "./api.js";
import { createCanvas } from "./canvas/index.js";
import { createDialogs } from "./dialogs.js";
import { h, replace } from "./dom.js";
import { createGraphs } from "./graphs.js";
import { createTranslator, loadTexts, preferredLanguage } from "./i18n.js";
import { createKeys } from "./keys.js";
import { createLive } from "./live.js";
import { createRouter, readRoute } from "./router.js";
import { createSession } from "./session.js";
import { createShell } from "./shell.js";
import { createSocket } from "./socket.js";
import { createStore } from "./store.js";
import { kept } from "./kept.js";

const RELOAD_MS = 2000;

const store = createStore({
  me: null,
  lang: preferredLanguage(kept.get("lang")),
  theme: kept.get("theme") ?? "system",
  connection: "connecting",
  graphs: null,
  graphKey: null,
  graph: null,
  graphState: "none", // none | loading | ready | failed
  graphError: null,
  sheet: "0",
  nodes: new Map(),
  edges: new Map(),
  nodeTypes: new Map(),
  selection: [],
  panel: "chat",
  automations: null, // of this graph, or of all
  runShown: null, // the run that is to be shown
  agents: null, // of the workspace, as the service lists them
  callShown: null, // the call that is to be shown
  agentChosen: null, // the agent of the next new conversation
  threadId: null,
  offline: false,
  usage: null,
  saveStatus: null,
  notEditable: null, // {isElsewhere, reason} while this graph is only to be looked at here
  editors: [],
  embedding: 0, // nodes of this graph that are still to be embedded
});

await loadTexts(store.get().lang).catch((error) => {
  setTimeout(() => location.reload(), RELOAD_MS); // without texts there is no page
  throw error;
});
const t = createTranslator(() => store.get().lang);
const { toast, openDialog, confirm, prompt } = createDialogs({ t });
const session = createSession({ t, openDialog });
let signingIn = null;
const signInAgain = (reason) => (signingIn ??= session.signIn(reason).then(() => ((signingIn = null), begin())));
const api = createApi({ token: () => session.token, language: () => store.get().lang, t, onSignInNeeded: signInAgain });
const socket = createSocket({
  url: () => `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws?lang=${store.get().lang}`,
  token: () => session.token,
  t,
  onState: (connection) => store.set({ connection }),
  onSignInNeeded: signInAgain,
});

export const app = { store, api, socket, session, t, toast, openDialog, confirm, prompt, path, ApiError };
app.live = createLive(app);
app.graphs = createGraphs(app);
app.canvas = createCanvas(app, document.getElementById("canvas"));
app.router = createRouter({ ...app, canvas: () => app.canvas });
app.shell = createShell(app);
createKeys(app);

async function mountParts() {
  const parts = [
    ["./chat/index.js", "mountChat", "panel-chat"],
    ["./review/index.js", "mountReview", "panel-review"],
    ["./automations/index.js", "mountAutomations", "panel-automations"],
    ["./agents/index.js", "mountAgents", "panel-agents"],
    ["./calls/index.js", "mountCalls", "panel-calls"],
    ["./chat/threads.js", "mountThreads", "panel-threads"],
  ];
  await Promise.all(parts.map(async ([module, name, id]) => {
    const element = document.getElementById(id);
    try {
      (await import(module))[name](app, element);
    } catch (error) {
      reportError(error);
      replace(element, h("p.empty", t("app.part_broken"), " ", h("button", { onclick: () => location.reload() }, t("app.reload"))));
    }
  }));
}

// Learns who is calling; without that nothing else is asked.
async function begin() {
  try {
    const me = await api.get("/api/me");
    store.set({ me, offline: me.offline });
  } catch (error) {
    if (error.status === 401) return; // the dialog is open
    store.set({ graphState: "failed", graphError: error });
    return;
  }
  socket.stop();
  socket.start();
  await app.graphs.load();
  app.router.follow(first ?? readRoute());
  first = null;
}

let first = readRoute(); // before a panel that is chosen writes an address of its own
store.set(first.panel ? { panel: first.panel } : {});
await mountParts();
await begin();
document.documentElement.dataset.ready = "true";
