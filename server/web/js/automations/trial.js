// A trial of an automation: what a run would report and propose now. Nothing of it is stored.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { renderChanges } from "../review/changes.js";
import { threeOf, usedText } from "./facts.js";
import { reportOf, saidIn } from "./run-parts.js";
import { tryAutomation } from "./service.js";

// Returns the view, which begins at once: `element`, `focus()`, `destroy()`, which stops it. `onRun()` runs it for good.
export function createTrial(app, automation, { onBack, onRun }) {
  const { t } = app;
  const stopping = new AbortController();
  const body = h("div.auto-run-top", { "aria-live": "polite" });
  const back = h("button.icon-button", { type: "button", "aria-label": t("auto.back"), title: t("auto.back"), onclick: onBack }, icon("chevron"));
  const element = h("section.auto-run-view", { "aria-busy": "true" },
    h("header.auto-run-head", back, h("h2", t("auto.trial_of", { name: automation.name }))), body);
  begin();
  return { element, focus: () => back.focus(), destroy: () => stopping.abort() };

  async function begin() {
    element.setAttribute("aria-busy", "true");
    replace(body, h("p.note", { role: "status" }, t("auto.trial_runs")), h("progress", { "aria-label": t("auto.trial_runs") }),
      h("div.card-buttons", h("button", { type: "button", onclick: onBack }, icon("stop"), t("auto.trial_cancel"))));
    try {
      show(await tryAutomation(app.api, automation.id, stopping.signal));
    } catch (error) {
      if (stopping.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      replace(body, h("div.notice-line", { role: "alert" }, h("p", error.message), h("button", { type: "button", onclick: begin }, t("app.retry"))));
    }
    element.setAttribute("aria-busy", "false");
  }

  function show({ run, messages, proposals }) {
    replace(body,
      h("p.note", t("auto.trial_stored")),
      threeOf(app, run, proposals.length),
      h("p.card-meta", [t("auto.calls", { n: run.roundtrips }), usedText(app, run.usage), run.model].filter(Boolean).join(" · ")),
      run.report ? reportOf(app, run) : "",
      h("section", h("h3", proposals.length ? t("auto.trial_proposes", { n: proposals.length }) : t("auto.trial_proposes_nothing")), proposals.map(proposalElement)),
      h("div.card-buttons", h("button.primary", { type: "button", onclick: onRun }, icon("Play"), t("auto.run")), h("button", { type: "button", onclick: begin }, icon("retry"), t("auto.trial_again"))),
      saidIn(app, { messages }, { isOpen: !run.report }));
  }

  function proposalElement({ title, reason, preview, graphKey }) {
    return h("article.auto-would", h("h4", title), reason ? h("p.note", reason) : "",
      renderChanges(app, preview, { title, canZoom: graphKey === app.store.get().graphKey }));
  }
}
