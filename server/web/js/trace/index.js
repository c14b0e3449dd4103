// How an answer came about: its steps as a tree with their times, and what is stored of the one that is chosen.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";
import { timeText } from "../names.js";
import { loadApprovals } from "../review/book.js";
import { detailOf, turnDetail } from "./detail.js";
import { stepsOf, sumsOf } from "./steps.js";
import { createTree } from "./tree.js";

const RUN = /^(auto|seed)\//; // the ids of runs; others are conversations
const PROPOSALS = 200;

// Shows the trace that the store names, and closes it when the store names none any more.
export function followTrace(app) {
  let dialog = null;
  const follow = (id) => {
    dialog?.close();
    dialog = id ? showTrace(app, id) : null;
  };
  app.store.on("traceShown", follow);
  follow(app.store.get().traceShown);
}

// Shows the trace of a conversation or a run, the latest answer first; returns its dialog.
function showTrace(app, id) {
  const { t, api, path, store } = app;
  const { lang } = store.get();
  const place = RUN.test(id) ? `/api/sessions/${id.split("/").map(encodeURIComponent).join("/")}/trace` : path`/api/ai/thread/${id}/trace`;
  const detail = h("section.trace-detail", { "aria-label": t("trace.detail") });
  const tree = createTree(app, { label: t("trace.title"), onOpen: load, onShow: show });
  const body = h("div.trace", { "aria-busy": "true" });
  const shown = { root: null, step: null };
  let roots = [];
  const onClose = () => (stopApprovals(), store.get().traceShown === id && store.set({ traceShown: null }));
  const stopApprovals = store.on("approvals", () => tree.draw(roots));
  const dialog = app.openDialog({ title: t("trace.title"), content: body, wide: true, onClose });
  dialog.element.classList.add("trace-dialog");
  begin();
  return dialog;

  async function begin() {
    const answer = await ask({ brief: true });
    body.removeAttribute("aria-busy");
    if (!answer) return;
    if (!answer.turns.length) return void replace(body, h("p.note", t("trace.empty")));
    roots = answer.turns.toReversed().map((turn, i) => ({ ...rootOf(turn), steps: null, isOpen: i === 0 }));
    replace(body, tree.element, detail);
    tree.draw(roots);
    tree.choose(roots[0].id);
    tree.focus();
    await load(roots[0]);
  }

  function rootOf({ turn, time, question, ms }) {
    return { id: String(turn), title: t("trace.turn", { n: turn }), beside: question, question, time: timeText(time, lang), ms };
  }

  // Reads the steps of one answer, when it is opened.
  async function load(root) {
    tree.element.setAttribute("aria-busy", "true");
    const answer = await ask({ turn: root.id });
    tree.element.removeAttribute("aria-busy");
    const [turn] = answer?.turns ?? [];
    if (!turn) return;
    Object.assign(root, stepsOf(turn), { sums: sumsOf(turn.spans) });
    tree.draw(roots);
    if (shown.root === root) show(root, shown.step);
    if (turn.spans.some((span) => span.attributes.approvalId)) await loadApprovals(app, { threadId: id, limit: PROPOSALS }).catch(quiet);
  }

  function show(root, step) {
    Object.assign(shown, { root, step });
    replace(detail, step ? detailOf(app, step, { onReview }) : turnDetail(app, root));
  }

  function onReview(approval) {
    dialog.close();
    store.set({ panel: "review", reviewShown: approval.id });
  }

  async function ask(query) {
    try {
      return await api.get(place, query);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      replace(body, h("p.warn-text", { role: "alert" }, error.message));
      return null;
    }
  }

  // A proposal that cannot be read is shown without its title.
  function quiet(error) {
    if (!(error instanceof ApiError)) throw error;
  }
}
