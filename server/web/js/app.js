// The page's start: makes its parts, gives each what it needs, and keeps the address in step with what is shown.

import { ApiError, createApi, path } from "./api.js";
import { createCanvas } from "./canvas/index.js";
import { createDialogs } from "./dialogs.js";
import { h, replace } from "./dom.js";
import { createGraphs } from "./graphs.js";
import { createTranslator, loadTexts, preferredLanguage } from "./i18n.js";
import { createKeys } from "./keys.js";
import { createLive } from "./live.js";
import { createPeople } from "./people.js";
import { createRouter, readRoute } from "./router.js";
import { createSession } from "./session.js";
import { createShell } from "./shell.js";
import { createSocket } from "./socket.js";
import { createStore } from "./store.js";
import { kept } from "./kept.js";
import { createUpdates } from "./updates.js";

const RELOAD_MS = 2000;

const store = createStore({
  me: null,
  lang: preferredLanguage(kept.get("lang")),
  theme: kept.get("theme") ?? "system",
  connection: "connecting",
  approvals: new Map(), // the one place of proposals, by id; see review/book.js
  graphs: null,
  thumbnails: null, // of the list: graph key -> boxes of nodes
  deletedGraphs: null, // what can be restored
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
  isAside: false, // the panels are shown beside the list of graphs
  automations: null, // of this graph, or of all
  automationsError: null,
  runShown: null, // the run that is to be shown
  reviewView: null, // the part of the review panel that is to be shown
  reviewShown: null, // the approval that is to be shown
  decidable: null, // workspace -> graph key -> proposals that this person may decide
  conflicts: null,
  badges: null, // panel -> what its tab counts
  agents: null, // of the workspace, as the service lists them
  agentsError: null,
  links: [], // the workflows of running servers that this graph is connected with
  callShown: null, // the call that is to be shown
  agentShown: null, // the agent that is to be shown
  traceShown: null, // the trace that is to be shown
  agentChosen: null, // the agent of the next new conversation
  threadId: null,
  offline: false,
  usage: null,
  saveStatus: null,
  changedSince: null, // when the graph last changed while it is shown as it was
  notEditable: null, // {isElsewhere, reason} while this graph is only to be looked at here
  editors: [],
  names: new Map(), // user id -> what somebody is called
  embedding: 0, // nodes of this graph that are still to be embedded
});

const t = createTranslator(() => store.get().lang);
const { toast, openDialog, confirm, prompt } = createDialogs({ t });
const session = createSession({ t, openDialog, onRenewed: () => socket.signAgain() });
let signingIn = null;
const signInAgain = (reason) => (signingIn ??= session.signIn(reason).then(() => ((signingIn = null), begin())));
const api = createApi({ token: () => session.token, renew: session.renew, language: () => store.get().lang, t, onSignInNeeded: signInAgain });
const socket = createSocket({
  url: () => `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws?lang=${store.get().lang}`,
  token: () => session.token,
  t,
  onState: (connection) => store.set({ connection }),
  onSignInNeeded: signInAgain,
});
const people = createPeople({ store, api });
const updates = createUpdates({ t, toast, confirm });
const app = { store, api, people, updates, socket, session, t, toast, openDialog, confirm, prompt, path, ApiError };

const PARTS = {
  chat: async () => (await import("./chat/index.js")).mountChat,
  review: async () => (await import("./review/index.js")).mountReview,
  automations: async () => (await import("./automations/index.js")).mountAutomations,
  agents: async () => (await import("./agents/index.js")).mountAgents,
  threads: async () => (await import("./chat/threads.js")).mountThreads,
  calls: async () => (await import("./calls/index.js")).mountCalls,
  today: async () => (await import("./today/index.js")).mountToday,
  settings: async () => (await import("./administration/index.js")).mountSettings,
};
const SHOWN_BY = { review: ["reviewView", "reviewShown"], automations: ["runShown"], calls: ["callShown"], agents: ["agentShown"] }; // parts of the store that open a panel

async function mountPart(name) {
  const element = document.getElementById(`panel-${name}`);
  try {
    const mount = await PARTS[name]();
    store.catchUp(() => mount(app, element));
  } catch (error) {
    reportError(error);
    updates.look();
    replace(element, h("p.empty", t("app.part_broken"), " ", h("button", { onclick: () => location.reload() }, t("app.reload"))));
  }
}

// Reads a panel when it is looked at; what the store knows of it is news from the beginning.
function mountLater(name) {
  const asking = SHOWN_BY[name] ?? [];
  const stops = ["panel", ...asking].map((part) => store.on(part, look));
  function look() {
    const state = store.get();
    if (state.panel !== name && !asking.some((part) => state[part])) return undefined;
    for (const stop of stops) stop();
    return mountPart(name);
  }
  return look();
}

async function mountPanels() {
  const news = await Promise.all([import("./review/news.js"), import("./automations/news.js"), import("./agents/known.js"), import("./connections/known.js")]);
  store.catchUp(() => {
    for (const mount of [news[0].mountNews, news[1].mountAutomationNews, news[2].mountAgentsKnown, news[3].mountConnectionsKnown]) mount(app);
  });
  await Promise.all(Object.keys(PARTS).map((name) => (name === "chat" ? mountPart(name) : mountLater(name))));
}

// Asks at once for all that is shown first. Who is not known yet signs in, and then it is all asked again.
async function begin() {
  const reading = [app.graphs.load(), app.router.follow(first ?? readRoute())];
  first = null;
  try {
    const me = await api.get("/api/me");
    store.set({ me, offline: me.offline });
  } catch (error) {
    if (error.status === 401) return; // the dialog is open
    store.set({ graphState: "failed", graphError: error });
    return;
  }
  await Promise.all(reading);
  mounted ??= mountPanels();
  await mounted;
  socket.stop();
  socket.start();
}

addEventListener("unhandledrejection", async (event) => {
  if (!/dynamically imported module|^messages: later/.test(event.reason?.message)) return; // a part that is read when it is first used
  event.preventDefault();
  if (!(await updates.look())) toast("error", t("error.network"));
});

let mounted = null; // the panels: their scripts are read when the canvas stands
let first = readRoute(); // before a panel that is chosen writes an address of its own
store.set(first.panel ? { panel: first.panel } : {});
loadTexts(store.get().lang).then(start, (error) => {
  setTimeout(() => location.reload(), RELOAD_MS); // without texts there is no page
  throw error;
});

async function start() {
  app.live = createLive({ ...app, onGone: () => app.graphs.load() });
  app.graphs = createGraphs(app);
  app.canvas = createCanvas(app, document.getElementById("canvas"));
  app.router = createRouter({ ...app, canvas: () => app.canvas });
  app.shell = createShell(app);
  app.keys = createKeys(app);
  await session.begin();
  await begin();
  document.documentElement.dataset.ready = "true";
}
