// The timeline of the graph: dragged, it shows the graph as it was; two moments are compared; one is brought back.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { personName, sentences, timeText } from "../names.js";
import { mayEdit } from "../roles.js";

const PAGE = 500;
const SOON_MS = 120; // a drag asks for the place where it rests

let opened = null;

// Shows the timeline over the canvas, or closes it.
export function toggleTimeline(app) {
  if (opened) opened.close();
  else opened = createTimeline(app, () => (opened = null));
}

function createTimeline(app, onClosed) {
  const { api, path, store, t, toast } = app;
  const { graphKey } = store.get();
  let moments = []; // the oldest first; the last is now
  let cursor = null;
  let mark = null; // the moment that others are compared with
  let timer = 0;
  let turn = 0;
  const range = h("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": t("timeline.label"), oninput: moved });
  const what = h("p.timeline-what", { role: "status" });
  const note = h("p.note", { hidden: true });
  const older = button("history", "timeline.older", () => read());
  const compare = button("sheets", "timeline.compare", marked);
  const [restore, propose] = [button("undo", "timeline.restore", () => bring(false)), button("review", "timeline.propose", () => bring(true))];
  const element = h("section.timeline.floating", { "aria-label": t("timeline.title"), onkeydown: (event) => event.key === "Escape" && close() },
    h("div.timeline-top", what, h("button.icon-button", { type: "button", title: t("app.close"), "aria-label": t("app.close"), onclick: () => close() }, icon("close"))),
    range, note, h("div.timeline-actions", older, compare, restore, propose));
  document.getElementById("canvas").append(element);
  const watching = [store.on("graphKey", () => close()), store.on("selection", drawActions), store.on("lang", () => close()), store.on("changedSince", changed)];
  read().then(() => range.focus());

  function button(name, text, onclick) {
    return h("button", { type: "button", onclick }, icon(name), h("span", t(text)));
  }

  async function read() {
    const answer = await ask(() => api.get(path`/api/graphs/${graphKey}/revisions`, { limit: PAGE, ...(cursor ? { cursor } : {}) }));
    if (!answer || !element.isConnected) return;
    const at = moments.length - Number(range.value);
    moments = [...answer.revisions.toReversed(), ...(moments.length ? moments : [{ revision: null }])];
    cursor = answer.cursor ?? null;
    range.max = moments.length - 1;
    range.value = Math.max(0, moments.length - Math.max(1, at));
    if (answer.cut) say(t("timeline.cut", { when: timeText(answer.cut, store.get().lang) }));
    drawWords();
  }

  function chosen() {
    return moments[Number(range.value)] ?? { revision: null };
  }

  function moved() {
    drawWords();
    clearTimeout(timer);
    timer = setTimeout(show, SOON_MS);
  }

  // Somebody edits: a comparison with now follows.
  function changed() {
    if (mark && chosen().revision === null) moved();
  }

  async function show() {
    const mine = ++turn;
    const { revision } = chosen();
    if (mark) {
      const found = await ask(() => api.get(path`/api/graphs/${graphKey}/compare`, { from: mark.revision, ...(revision ? { to: revision } : {}) }, { isLong: true }));
      if (found && mine === turn && mark) app.canvas.showGhosts(found.preview, { title: `${words(mark)} → ${words(chosen())}`, onHide: marked, stays: true });
    } else if (revision === null) app.live.look(null);
    else {
      const past = await ask(() => api.get(path`/api/graphs/${graphKey}/revisions/${revision}`, null, { isLong: true }));
      if (!past || mine !== turn || !element.isConnected) return;
      app.live.look(past);
      if (past.timestamp > revision || past.gaps) say(t("timeline.partial", { n: past.gaps }));
    }
    drawActions();
  }

  function say(text) {
    note.hidden = false;
    note.textContent = text;
  }

  // The graph stays as it was then, and what came until the place of the slider is drawn over it.
  function marked() {
    mark = mark || chosen().revision === null ? null : chosen();
    if (mark) range.value = moments.length - 1;
    else app.canvas.showGhosts(null);
    compare.setAttribute("aria-pressed", String(Boolean(mark)));
    drawWords();
    show();
  }

  function words(moment) {
    const { lang } = store.get();
    return moment.revision === null ? t("timeline.now") : timeText(moment.revision, lang);
  }

  function drawWords() {
    const moment = chosen();
    const done = moment.steps ? sentences(moment.steps, app).join(" · ") : moment.what;
    const text = moment.revision === null ? t("timeline.now") : [words(moment), personName(app, moment.by), done].join(" · ");
    range.setAttribute("aria-valuetext", text);
    replace(what, h("strong", text), moment.reason ? h("span.muted", ` ${moment.reason}`) : "");
    drawActions();
  }

  function drawActions() {
    const isPast = chosen().revision !== null;
    const { selection, nodes } = store.get();
    const isNode = selection.some((key) => nodes.has(key));
    older.hidden = !cursor || Number(range.value) > 0;
    compare.disabled = !isPast && !mark;
    for (const one of [restore, propose]) {
      one.hidden = !mayEdit(store.get().me);
      one.disabled = !isPast || Boolean(mark);
    }
    restore.lastChild.textContent = t(isNode ? "timeline.restore_nodes" : "timeline.restore");
  }

  // Brings the selected nodes, or all of the graph, back.
  async function bring(isProposal) {
    const { selection, nodes } = store.get();
    const keys = selection.filter((key) => nodes.has(key));
    const sure = keys.length || isProposal || (await app.confirm({ title: t("timeline.restore"), text: t("timeline.sure", { when: words(chosen()) }), ok: t("timeline.restore") }));
    if (!sure) return;
    const done = await ask(() => api.post(path`/api/graphs/${graphKey}/revisions/${chosen().revision}/restore`, { ...(keys.length ? { nodes: keys } : {}), propose: isProposal }));
    if (!done) return;
    close();
    if (isProposal) store.set({ panel: "review", reviewView: "open" });
    else toast("ok", t("timeline.restored"));
  }

  async function ask(work) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast("error", error.message);
      return null;
    }
  }

  function close() {
    if (!element.isConnected) return;
    clearTimeout(timer);
    turn += 1;
    for (const stop of watching) stop();
    element.remove();
    if (mark) app.canvas.showGhosts(null);
    app.live.look(null);
    onClosed();
  }

  return { close };
}
