// What is written back to the server of a graph's workflow: shown whole before a person confirms it, and how it ended.

import { ApiError } from "../api.js";
import { createParts, h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { ago, shortJson } from "../names.js";
import { mayEdit } from "../roles.js";
import { PRODUCTS } from "./facts.js";
import { actOnPush, listPushes, planPush } from "./service.js";

const LATEST = 3; // pushes that are over
const KINDS = { waiting: "is-live", verified: "is-good", failed: "is-bad", rolled_back: "is-bad", unknown: "is-bad", refused: "is-bad", undone: "is-warn" };

const PLANNING = { push: ["servers.push", "upload"], publish: ["servers.publish", "check"], create: ["servers.create", "plus"] };
const APPROVING = { publish: "servers.publish_approve", create: "servers.create_approve" };
const NOTHING = { publish: "servers.publish_nothing" };

// Returns `{element, load()}` for a link of the open graph, or for a connection that may become one. `actions`: what may be
// asked for now, by name; `onWritten` is called where a push may have ended.
export function createPushes(app, link, { actions, onWritten }) {
  const { store, t } = app;
  const { graphKey } = store.get();
  const problem = h("p.warn-text", { role: "alert", hidden: true });
  const list = h("div.push-list");
  const drawParts = createParts(list);
  const plans = h("div.card-buttons");
  const element = h("section.pushes", { "aria-label": t("servers.pushes") }, plans, problem, list);
  drawPlans();
  return { element, load };

  function drawPlans() {
    const asked = link.push !== "never" && mayEdit(store.get().me) ? actions() : [];
    replace(plans, asked.map((action) => {
      const [text, glyph] = PLANNING[action];
      return h("button", { type: "button", onclick: () => work(() => planned(planPush(app.api, link.connection, graphKey, action), action)) }, icon(glyph), t(text, { product: PRODUCTS[link.kind] }));
    }));
  }

  async function load() {
    const found = (await listPushes(app.api, graphKey)).filter((push) => push.connection === link.connection);
    const over = found.filter((push) => push.state !== "waiting").slice(0, LATEST);
    const { lang, me } = store.get();
    drawParts(found.filter((push) => push.state === "waiting" || over.includes(push)).map((push) => ({ key: push.id, facts: [lang, me?.role, JSON.stringify(push)], make: () => article(push) })));
  }

  function article(push) {
    const { lang, me } = store.get();
    const isWaiting = push.state === "waiting";
    const told = (sentences, kind) => sentences.map((one) => h("p", { class: kind }, one.text ?? one));
    const button = (key, kind, action) => h("button", { type: "button", class: kind, onclick: () => work(action) }, t(key));
    return h("article.push", { dataset: { push: push.id } },
      h("p.linked-head", h("strong", t(`servers.push.${push.action}`)), h("span.link-state", { class: KINDS[push.state] }, t(`servers.push_state.${push.state}`)), h("span.note", ago(push.endedTime ?? push.createdTime, lang, t))),
      isWaiting || push.state === "refused" ? [changesTable(push), told(push.problems, "warn-text"), told(push.warnings, "push-warning"), told(push.effects), told(push.leftOut, "note")] : "",
      push.reason ? h("p", { class: push.state === "verified" ? undefined : "warn-text" }, push.reason.text) : "",
      told(push.failures, "warn-text"),
      mayEdit(me) ? h("div.card-buttons",
        isWaiting ? [button(APPROVING[push.action] ?? "servers.push_approve", "primary", () => actOnPush(app.api, push.id, "approve")), button("servers.push_reject", undefined, () => actOnPush(app.api, push.id, "reject"))] : "",
        push.canBeUndone ? button("servers.push_undo", undefined, () => planned(actOnPush(app.api, push.id, "undo").then((answer) => answer.push ?? null), "undo")) : "") : "");
  }

  function changesTable({ changes, moreChanges }) {
    const cell = (name, sign, push) => h("td", { class: `is-${name}` }, name === "removed" ? push.before === undefined ? "" : `${sign} ${shortJson(push.before)}` : push.after === undefined ? "" : `${sign} ${shortJson(push.after)}`);
    return h("div.push-changes", { tabIndex: 0, role: "region", "aria-label": t("servers.push_changes", { product: PRODUCTS[link.kind] }) },
      h("table", h("thead", h("tr", ["field", "before", "after"].map((name) => h("th", { scope: "col" }, t(`servers.push_${name}`))))),
        h("tbody", changes.map((one) => h("tr", h("th", { scope: "row" }, one.place), cell("removed", "−", one), cell("added", "+", one))))),
      moreChanges ? h("p.note", t("change.more", { count: moreChanges })) : "");
  }

  async function planned(asking, action) {
    if ((await asking) === null) app.toast("info", t(NOTHING[action] ?? "servers.push_nothing", { product: PRODUCTS[link.kind] }));
  }

  // Does something with the server, says what is refused, and looks again.
  async function work(action) {
    problem.hidden = true;
    plans.querySelectorAll("button").forEach((one) => (one.disabled = true));
    try {
      await action();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      problem.textContent = error.message;
      problem.hidden = false;
    }
    await load();
    await onWritten();
    drawPlans();
  }
}
