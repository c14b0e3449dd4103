// Calls by voice: talking from here, those that go on and those that are over, and one of them at a time.

import { ApiError } from "../api.js";
import { createParts, h, named, replace } from "../dom.js";
import { mayAudit, mayEdit } from "../roles.js";
import { createStrip } from "../strip.js";
import { callRow, countsOf } from "./facts.js";
import { isLive } from "./known.js";
import { listCalls } from "./service.js";
import { createTalk } from "./talk.js";
import { createCallView } from "./view.js";

const SOON_MS = 150; // news that come together are looked at together
const STATUSES = ["", "active", "ended"];

export function mountCalls(app, element) {
  const { store, socket, t } = app;
  const talk = createTalk(app, { onCall: (callId) => store.set({ callShown: callId }) });
  const top = h("div.threads-top");
  const list = h("div.auto-list");
  const place = h("div.auto-place", { hidden: true });
  const [drawTop, drawList] = [top, list].map(createParts);
  const panel = { calls: null, cursor: null, agent: "", status: "", error: null, view: null, timer: 0, asked: 0 };
  element.classList.add("automations");
  replace(element, top, talk.element, list, place);
  for (const part of ["me", "lang"]) store.on(part, () => (draw(), look()));
  store.on("panel", look);
  store.on("agents", draw);
  store.on("callShown", showCall);
  socket.on("open", watch);
  if (socket.isOpen) watch();
  socket.on("call:listed", look);
  document.addEventListener("visibilitychange", look);
  draw();

  // Lets the server tell of calls, with this connection and each one after it.
  function watch() {
    if (mayAudit(store.get().me)) socket.request({ type: "calls:watch" }).catch(() => {}); // asked again with the next connection
    look();
  }

  function look() {
    clearTimeout(panel.timer);
    if (document.visibilityState !== "hidden" && mayAudit(store.get().me)) panel.timer = setTimeout(load, SOON_MS);
  }

  // Reads the calls from the newest on; with a cursor those that follow.
  async function load(cursor) {
    const mine = ++panel.asked;
    try {
      const found = await listCalls(app.api, { agent: panel.agent, status: panel.status, cursor });
      if (mine !== panel.asked) return; // chosen otherwise meanwhile
      Object.assign(panel, { calls: cursor ? [...panel.calls, ...found.calls] : found.calls, cursor: found.cursor, error: null });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (mine === panel.asked) panel.error = error;
    }
    draw();
  }

  function draw() {
    const { agents, lang, me } = store.get();
    const { calls, error } = panel;
    talk.draw();
    drawTop([
      { key: "title", facts: [lang], make: () => h("h2", t("panel.calls")) },
      ...(mayAudit(me) ? [
        { key: "agent", facts: [lang, JSON.stringify((agents ?? []).map(({ id, name }) => [id, name]))], make: () => chooser("agent", [["", t("calls.all_agents")], ...(agents ?? []).map(({ id, name }) => [id, name])]) },
        { key: "status", facts: [lang], make: () => chooser("status", STATUSES.map((one) => [one, t(`calls.show.${one || "all"}`)])) }] : []),
    ]);
    if (!mayAudit(me)) drawList(mayEdit(me) ? [{ key: "editor", facts: [lang], make: () => h("p.note", t("calls.editor")) }] : []);
    else if (error) drawList([{ key: "failed", facts: [lang, error], make: () => h("div.notice-line", { role: "alert" }, h("p", error.message), h("button", { type: "button", onclick: () => load() }, t("app.retry"))) }]);
    else if (!calls) drawList([{ key: "loading", facts: [lang], make: () => h("p.notice-line", { role: "status" }, t("calls.loading")) }]);
    else if (!calls.length) drawList([{ key: "empty", facts: [lang], make: empty }]);
    else drawList([
      { key: "strip", facts: [lang, JSON.stringify(countsOf(calls))], make: () => strip(countsOf(calls)) },
      ...calls.map((call) => ({ key: call.callId, facts: [lang, JSON.stringify(call), agents], make: () => callRow(app, call, (id) => store.set({ callShown: id })) })),
      ...(panel.cursor ? [{ key: "more", facts: [lang, panel.cursor], make: () => h("button", { type: "button", onclick: () => load(panel.cursor) }, t("calls.more")) }] : []),
    ]);
    const live = (calls ?? []).filter(isLive).length;
    if ((store.get().badges?.calls ?? 0) !== live && !panel.agent && panel.status !== "ended") store.set({ badges: { ...store.get().badges, calls: live } });
  }

  function strip({ now, outcome, wrong }) {
    const fact = (key, n, tone) => ({ label: t(`calls.strip.${key}`), tone: n ? tone : "plain", text: n ? String(n) : t("calls.strip.none") });
    const shown = createStrip([fact("now", now, "live"), fact("outcome", outcome, "good"), fact("wrong", wrong, "bad")]);
    shown.setAttribute("aria-label", t("calls.strip"));
    shown.title = t("calls.strip");
    return shown;
  }

  function empty() {
    return h("div.auto-empty", h("p.notice-title", t("calls.empty")), h("p.note", t("calls.empty_hint")), h("pre.code-shown", { tabindex: "0" }, t("calls.empty_command")));
  }

  function chooser(name, options) {
    const select = h("select", options.map(([value, text]) => h("option", { value, selected: value === panel[name] }, text)));
    select.addEventListener("change", () => {
      panel[name] = select.value;
      load();
    });
    return named(t(`calls.${name}`), select);
  }

  function showCall(id) {
    panel.view?.destroy();
    panel.view = id ? createCallView(app, id, { onBack: () => store.set({ callShown: null }) }) : null;
    top.hidden = list.hidden = Boolean(id);
    place.hidden = !id;
    replace(place, panel.view?.element ?? "");
    if (!id) return look();
    store.set({ panel: "calls" });
    return panel.view.focus();
  }
}
