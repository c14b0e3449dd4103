// A proposal in another program: its preview on a part of the graph, and its card. It is decided in the page alone.

import { h, replace, isSafeUrl } from "../dom.js";
import { addTexts, createTranslator, preferredLanguage } from "../i18n.js";
import { fromDocument, isOpen, stateOf } from "../review/approvals.js";
import { renderChanges } from "../review/changes.js";
import { factsOf, outcomeOf } from "../review/facts.js";
import { connectHost } from "./bridge.js";
import { createPreviewCanvas } from "./canvas.js";

const STATES = { lang: preferredLanguage(), me: null, graph: null, graphKey: null, graphs: [], sheet: "0", selection: [], nodes: new Map(), edges: new Map(), nodeTypes: new Map(), approvals: new Map(), conflicts: {}, names: new Map() };
const given = JSON.parse(document.getElementById("texts").textContent);
for (const [lang, texts] of Object.entries(given.texts)) addTexts(lang, texts);

const store = { get: () => STATES, set: (next) => Object.assign(STATES, next), on: () => () => {} };
const t = createTranslator(() => STATES.lang);
const people = { nameOf: (userId) => STATES.names.get(userId) ?? String(userId ?? "") };
const app = { store, t, people, live: { showSheet: (sheet) => (store.set({ sheet }), app.canvas.draw()) } };
const board = h("div.proposal-canvas", { hidden: true });
const card = h("article.card", { tabindex: "-1", "aria-live": "polite" });
const page = document.getElementById("proposal");
let host = null;
let shown = null; // {approval, link}
let said = "view.waiting";
app.canvas = createPreviewCanvas(board, app);
replace(page, board, card);
draw();
start();

async function start() {
  host = await connectHost(window.parent, { name: "nodius-proposal", version: given.version, on: hear });
  take(host.context);
  new ResizeObserver(() => host.notify("ui/notifications/size-changed", { width: page.offsetWidth, height: page.offsetHeight })).observe(page);
  window.addEventListener("focus", look);
  draw(); // what came meanwhile, with what the host can do
  await look();
}

// Asks what became of the proposal, where the host lets the view ask: a conversation is read again days later.
async function look() {
  if (!host?.capabilities.serverTools || !shown || !isOpen(shown.approval)) return;
  const { approval } = shown;
  const answer = await host.request("tools/call", { name: "proposal_status", arguments: { id: approval.id } }).catch(() => null);
  const { id, status, outcome } = answer?.structuredContent ?? {};
  if (id !== approval.id || shown?.approval !== approval || status === approval.status || !t.has(`state.${status}`)) return;
  shown = { ...shown, approval: { ...approval, status, outcome: String(outcome ?? "") } };
  draw();
}

function hear(method, params) {
  if (method === "ui/notifications/host-context-changed") take(params);
  else if (method === "ui/notifications/tool-result") receive(params);
  else if (method === "ui/notifications/tool-cancelled") say("view.cancelled");
}

// The host's theme and language.
function take({ theme, locale }) {
  if (["light", "dark"].includes(theme)) document.documentElement.dataset.theme = theme;
  if (typeof locale === "string") store.set({ lang: preferredLanguage(locale.slice(0, 2).toLowerCase()) });
  document.documentElement.lang = STATES.lang;
  draw();
}

// A tool's result. What is only for the view comes beside what models read; a host may leave it out.
function receive({ isError, structuredContent, _meta }) {
  const { proposal, link = "", around = {}, names = {} } = _meta?.["nodius/view"] ?? structuredContent ?? {};
  if (isError || !proposal) {
    say("view.none");
    return;
  }
  const byKey = (list, name) => new Map((list ?? []).map((one) => [one[name], one]));
  store.set({ names: new Map(Object.entries(names)), nodes: byKey(around.nodes, "_key"), edges: byKey(around.edges, "_key"), nodeTypes: byKey(around.types, "type"), graph: around.graph ?? null,
    graphs: around.graph ? [{ graphKey: proposal.graphKey, name: around.graph.name }] : [] });
  shown = { approval: fromDocument(proposal), link };
  board.hidden = false;
  draw();
  look();
}

function say(key) {
  shown = null;
  said = key;
  board.hidden = true;
  draw();
}

function draw() {
  card.className = shown ? `card is-${stateOf(shown.approval)}` : "card";
  if (!shown) {
    replace(card, h("p.note", { role: "status" }, t(said)));
    return;
  }
  const { approval } = shown;
  const state = stateOf(approval);
  app.canvas.show(approval.preview);
  replace(card,
    h("header.card-head", h("h1.card-title", approval.title), h("span.card-state", t(`state.${state}`))),
    h("div.card-body", ...factsOf(app, approval), h("details.card-changes", { open: true }, h("summary", t("view.changes")), renderChanges(app, approval.preview)), approval.cut ? h("p.note", t("view.cut")) : ""),
    h("div.card-outcome", ...(isOpen(approval) || approval.decision ? outcomeOf(app, approval, state) : [h("p", approval.outcome)])),
    h("div.card-foot", ...toDecide(state)));
}

// Leads to the page, where people decide; a host that opens no links shows the address.
function toDecide(state) {
  const { link } = shown;
  const words = state === "pending" ? [h("p.note", t("view.decides"))] : [];
  if (!/^https?:/i.test(link) || !isSafeUrl(link)) return words;
  if (host && !host.capabilities.openLinks) return [...words, h("p.note.proposal-link", link)];
  return [...words, h("div.card-buttons", h("button.primary", { type: "button", onclick: () => open(link) }, t("view.open")))];
}

async function open(url) {
  const answer = await host?.request("ui/open-link", { url }).catch(() => ({ isError: true }));
  if (answer?.isError) card.querySelector(".card-foot").append(h("p.note.proposal-link", url));
}
