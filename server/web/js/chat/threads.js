// The conversations of a person: of this graph or of all, newest first; open, begin, delete.

import { ApiError } from "../api.js";
import { createParts, h, named, replace } from "../dom.js";
import { icon } from "../icons.js";
import { kept } from "../kept.js";
import { costText, timeText } from "../names.js";
import { findThreads, listThreads } from "./service.js";
import { createThreadMenu } from "./thread-actions.js";

const SEEK_MS = 200; // between the last key and the question

export function mountThreads(app, element) {
  const { store } = app;
  const list = h("ul.thread-list");
  const top = h("div.threads-top");
  const drawTop = createParts(top);
  const drawList = createParts(list);
  const rows = new WeakMap(); // how to draw each line of the list
  let scope = kept.get("threads.scope") ?? "graph";
  let threads = null;
  let failed = null;
  let asked = 0;
  let wanted = "";
  let found = new Set(); // of those whose words hold what is wanted
  let timer = 0;
  element.classList.add("threads");
  replace(element, top, list);

  store.on("panel", (panel) => panel === "threads" && load());
  store.on("graphKey", () => ((threads = null), store.get().panel === "threads" ? load() : draw()));
  store.on("threadId", () => store.get().panel === "threads" && load());
  store.on("me", () => store.get().panel === "threads" && load());
  store.on("lang", draw);
  app.socket.on("ai:complete", () => store.get().panel === "threads" && load());
  draw();

  async function load() {
    const { graphKey, me } = store.get();
    if (!me) return;
    const mine = ++asked;
    try {
      const found = await listThreads(app.api, scope === "graph" ? graphKey : null);
      if (mine !== asked) return; // another graph or scope meanwhile
      threads = found;
      failed = null;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (mine === asked) failed = error;
    }
    draw();
  }

  function draw() {
    const { t } = app;
    const { lang, graphKey } = store.get();
    drawTop([
      { key: "title", facts: [lang], make: () => h("h2", t("panel.threads")) },
      { key: "find", facts: [lang], make: () => h("input", { type: "search", value: wanted, placeholder: t("threads.find"), "aria-label": t("threads.find"), oninput: (event) => seek(event.target.value) }) },
      { key: "scope", facts: [lang], make: chooser },
      { key: "new", facts: [lang, graphKey], make: () => h("button.primary", { type: "button", disabled: !graphKey, onclick: begin, title: t("chat.new") }, icon("plus"), t("threads.new")) },
      { key: "usage", facts: [lang], make: usage },
    ]);
    const notice = (key, make) => drawList([{ key, facts: [lang, failed], make }]);
    if (failed) notice("failed", () => h("li.notice-line", { role: "alert" }, h("p", failed.message), h("button", { type: "button", onclick: load }, t("app.retry"))));
    else if (threads === null) notice("loading", () => h("li.notice-line", { role: "status" }, t("threads.loading")));
    else if (!threads.length) notice("empty", () => h("li.notice-line", h("p.notice-title", t("threads.empty")), h("p.note", t("threads.empty_hint"))));
    else if (!shown().length) notice("none", () => h("li.notice-line", { role: "status" }, t("threads.none")));
    else {
      drawList(shown().map((thread) => ({ key: thread.threadId, facts: [], make: () => h("li") })));
      shown().forEach((thread, i) => drawRow(list.children[i], thread));
    }
  }

  const shown = () => threads.filter((one) => !wanted || found.has(one.threadId) || one.title.toLowerCase().includes(wanted));

  // By title at once, by what was said as the service answers.
  function seek(text) {
    wanted = text.trim().toLowerCase();
    found = new Set();
    draw();
    clearTimeout(timer);
    if (!wanted) return;
    timer = setTimeout(async () => {
      const asked = wanted;
      const keys = await findThreads(app.api, asked).catch(() => []);
      if (asked !== wanted) return;
      found = new Set(keys);
      draw();
    }, SEEK_MS);
  }

  function usage() {
    return h("button.usage-open", { type: "button", onclick: async () => (await import("../usage.js")).showUsage(app) }, app.t("usage.title"));
  }

  function chooser() {
    const { t } = app;
    const select = h("select", ...["graph", "all"].map((value) => h("option", { value, selected: value === scope }, t(`threads.scope.${value}`))));
    select.addEventListener("change", () => {
      scope = select.value;
      kept.put("threads.scope", scope);
      load();
    });
    return named(t("threads.scope"), select);
  }

  // What is known of a conversation changes while its menu is open: only the button is made again then.
  function drawRow(element, thread) {
    const { lang, threadId, graphKey } = store.get();
    const isCurrent = thread.threadId === threadId;
    element.classList.toggle("is-current", isCurrent);
    if (!rows.has(element)) rows.set(element, createParts(element));
    rows.get(element)([
      { key: "open", facts: [JSON.stringify(thread), lang, graphKey, isCurrent], make: () => opener(thread, isCurrent) },
      { key: "menu", facts: [thread.title, thread.graphKey, lang], make: () => createThreadMenu(app, thread, { onChange: load }) },
    ]);
  }

  function opener(thread, isCurrent) {
    const { t } = app;
    const { lang, graphs, graphKey } = store.get();
    const graph = thread.graphKey === graphKey || !thread.graphKey ? "" : (graphs ?? []).find((one) => one.graphKey === thread.graphKey)?.name ?? thread.graphKey;
    const facts = [timeText(thread.lastUpdatedTime, lang), thread.agentId && (store.get().agents?.find((one) => one.id === thread.agentId)?.name ?? thread.agentId), thread.ended && t("agents.over"), graph, t("threads.messages", { n: thread.messageCount }), thread.totalTokens && t("chat.tokens", { n: thread.totalTokens }), thread.totalTokens && thread.totalCost == null ? t("usage.cost_unknown") : thread.totalCost > 0 && costText(thread.totalCost, lang)].filter(Boolean);
    return h("button.thread", { type: "button", "aria-current": isCurrent ? "true" : undefined, onclick: () => open(thread) },
      h("span.thread-title", thread.title || t("threads.untitled")), h("span.thread-facts", facts.join(" · ")));
  }

  async function open(thread) {
    if (thread.graphKey && thread.graphKey !== store.get().graphKey) await app.live.open(thread.graphKey);
    store.set({ panel: "chat", threadId: thread.threadId });
  }

  function begin() {
    store.set({ panel: "chat" });
    app.chat?.startNew();
  }
}
