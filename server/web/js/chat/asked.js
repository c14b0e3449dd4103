// A question of the model to the person: buttons for its responses, a field where it takes a text. Made from the
// `card` that the server sends, so that it needs to know no kind of question.

import { h } from "../dom.js";

// Returns the card. `onAnswer(response)` is called once.
export function createAskedCard(app, card, onAnswer) {
  const { t } = app;
  const responses = Array.isArray(card.responses) ? card.responses : [];
  const buttons = responses.map((response, i) => h("button", { type: "button", class: i ? "" : "primary", onclick: () => answer(response) }, wordOf(t, response)));
  const own = card.freeText > 0 ? ownAnswer(t, card.freeText, (text) => answer(text)) : null;
  const element = h("fieldset.turn-note.asked", h("legend", String(card.text)), h("div.card-buttons", ...buttons), own ?? "");
  element.addEventListener("keydown", move);
  return element;

  function answer(response) {
    if (element.disabled) return;
    element.disabled = true;
    onAnswer(response);
  }

  // The arrow keys lead from one response to the next.
  function move(event) {
    const at = buttons.indexOf(document.activeElement);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (at < 0 || !step) return;
    event.preventDefault();
    buttons[(at + step + buttons.length) % buttons.length].focus();
  }
}

const wordOf = (t, response) => (typeof response === "boolean" ? t(response ? "asked.yes" : "asked.no") : String(response));

function ownAnswer(t, maxLength, onText) {
  const field = h("input", { type: "text", maxlength: String(maxLength), "aria-label": t("asked.own"), placeholder: t("asked.own"), autocomplete: "off" });
  const send = () => field.value.trim() && onText(field.value.trim());
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    send();
  });
  return h("div.asked-own", field, h("button", { type: "button", onclick: send }, t("chat.send")));
}
