// The comments on a proposal, and a field for one more. It outlives what its card draws: what is typed stays.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";
import { visible } from "../hidden.js";
import { personName, timeText } from "../names.js";
import { take } from "./book.js";
import { sendComment } from "./service.js";

const MOST_CHARS = 2000;

// Returns `element`, `draw()`, `open()` which puts the caret there, `keep(text)` for words that have lost their form, and
// `hasDraft()`: whether something is written that was not sent.
export function createDiscussion(app, approvalOf) {
  const { t } = app;
  const summary = h("summary");
  const list = h("ol.comments");
  const problem = h("p.field-error", { role: "alert", hidden: true });
  const field = h("textarea", { rows: "2", maxlength: MOST_CHARS });
  const send = h("button", { type: "submit" });
  const form = h("form.card-form", { onsubmit: (event) => (event.preventDefault(), submit()) }, field, problem, h("div.card-buttons", send));
  // A list may hold hundreds. The event comes after `open`: a form that moves loses the caret of its field.
  const unfold = () => element.open && form.parentElement !== element && element.append(form);
  const element = h("details.card-discussion", { ontoggle: unfold }, summary, list);
  return { element, draw, open, keep, hasDraft: () => field.value.trim() !== "" };

  function draw() {
    const { comments = [] } = approvalOf();
    summary.textContent = comments.length ? t("discuss.count", { n: comments.length }) : t("discuss.title");
    field.setAttribute("aria-label", t("discuss.label"));
    field.placeholder = t("discuss.label");
    send.textContent = t("discuss.send");
    const { lang } = app.store.get();
    replace(list, ...comments.map((one) => h("li", h("strong", personName(app, one.by)), " ", h("time", timeText(one.at, lang)), h("p", visible(one.text)))));
    if (comments.length && !element.dataset.seen) element.open = element.dataset.seen = true;
  }

  function open() {
    element.open = true;
    unfold();
    field.focus();
  }

  function keep(text) {
    if (!text) return;
    field.value = [field.value, text].filter(Boolean).join("\n");
    element.open = true;
  }

  async function submit() {
    const text = field.value.trim();
    if (!text || send.disabled) return;
    send.disabled = true;
    problem.hidden = true;
    try {
      take(app, [await sendComment(app.api, approvalOf().id, text)]);
      if (field.value.trim() === text) field.value = "";
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      problem.textContent = error.message;
      problem.hidden = false;
    } finally {
      send.disabled = false;
    }
  }
}
