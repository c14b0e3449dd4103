// Requests that are owed to somebody's API: whether they arrived, and sending one again.

import { ApiError } from "../api.js";
import { createParts, h } from "../dom.js";
import { timeText } from "../names.js";
import { mayAdminister } from "../roles.js";
import { listDeliveries, retryDelivery } from "./service.js";

const SOON_MS = 60_000; // what is tried so soon is looked at again
const AGAIN_MS = 1500;

// Returns `{element, load()}`; `filter` holds agentId or callId. `isQuiet`: nothing is said where there are none.
export function createDeliveries(app, filter, { isQuiet = false } = {}) {
  const { t, store } = app;
  const element = h("ul.deliveries");
  const drawParts = createParts(element);
  let timer = 0;
  return { element, load };

  async function load() {
    clearTimeout(timer);
    try {
      const found = await listDeliveries(app.api, filter);
      draw(found);
      if (found.some((one) => one.status === "waiting" && one.nextTime < Date.now() + SOON_MS)) timer = setTimeout(() => element.isConnected && load(), AGAIN_MS);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      drawParts(isQuiet ? [] : [{ key: "error", facts: [error], make: () => h("li.note", { role: "alert" }, error.message) }]);
    }
  }

  function draw(found) {
    const { lang, me } = store.get();
    if (found.length || isQuiet) drawParts(found.map((one) => ({ key: one.id, facts: [lang, me?.role, JSON.stringify(one)], make: () => row(one) })));
    else drawParts([{ key: "none", facts: [lang], make: () => h("li.note", t("agents.no_deliveries"), " ", h("code", `nodius chat --agent ${filter.agentId ?? "ID"}`)) }]);
  }

  function row(one) {
    const { lang, me } = store.get();
    const facts = [timeText(one.lastTime ?? one.createdTime, lang), one.attempts && t("agents.attempts", { n: one.attempts }), one.httpStatus && `HTTP ${one.httpStatus}`, one.error,
      one.status === "waiting" && one.nextTime && t("agents.next_try", { time: timeText(one.nextTime, lang) })].filter(Boolean);
    return h("li", h("span.delivery", { class: `is-${one.status}` }, h("code", one.event), " ", h("strong", t(`agents.delivery.${one.status}`))), h("span.thread-facts", facts.join(" · ")),
      mayAdminister(me) && one.status !== "done" ? h("button", { type: "button", "aria-label": `${t("agents.retry")}: ${one.event}`, onclick: (event) => again(event.currentTarget, one) }, t("agents.retry")) : "");
  }

  async function again(button, { id }) {
    button.disabled = true;
    try {
      await retryDelivery(app.api, id);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      app.toast("error", error.message);
    }
    await load();
  }
}
