// Where a person writes: Enter sends, Shift+Enter breaks the line, Escape stops, Up brings the last message back.

import { h, replace } from "../dom.js";
import { icon } from "../icons.js";
import { keptInTab } from "../kept.js";

const MAX_CHARS = 100_000;

// Returns the composer. `onSend(text, {blocks, read})` is called once per message, `onStop()` while an answer comes.
export function createComposer(app, { onSend, onStop }) {
  const { t } = app;
  const field = h("textarea", { rows: "1", maxlength: String(MAX_CHARS), id: "composer", enterkeyhint: "send", autocomplete: "off", dataset: { safe: "" } });
  const label = h("label.sr-only", { for: "composer" });
  const button = h("button.composer-send", { type: "submit", });
  const hint = h("p.composer-hint");
  const blockButton = h("button.icon-button.composer-block", { type: "button", onclick: () => choose() }, "@");
  const form = h("form.composer", label, h("div.composer-box", field, blockButton, button), hint);
  const composer = { element: form, focus: () => field.focus(), setBusy, setEnabled, fill, askAbout, restore, last: "", get text() { return field.value; } };
  let blocks = null; // read with the first
  let isBusy = false;
  let isEnabled = true;
  let reason = "chat.no_graph";

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (isBusy) onStop();
    else send();
  });
  field.addEventListener("input", fit);
  field.addEventListener("keydown", key);
  app.store.on("lang", render);
  render();
  keepText();
  return composer;

  // What is being written comes back when the page is read again in this tab.
  function keepText() {
    field.value = keptInTab.get("composer") ?? "";
    if (field.value) requestAnimationFrame(fit); // once it stands in the page
    keptInTab.put("composer", null);
    addEventListener("pagehide", () => keptInTab.put("composer", field.value.trim() ? field.value : null));
  }

  function key(event) {
    if (event.isComposing) return;
    if (event.key === "@" && !blocks && isEnabled && /(^|\s)$/.test(field.value.slice(0, field.selectionStart))) {
      event.preventDefault();
      choose("@");
    } else if (event.key === "Enter" && !event.shiftKey && !event.altKey && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      if (!isBusy) send();
    } else if (event.key === "Escape" && isBusy) {
      event.preventDefault();
      event.stopPropagation();
      onStop();
    } else if (event.key === "ArrowUp" && !field.value && composer.last) {
      event.preventDefault();
      fill(composer.last);
    }
  }

  // Reads what points at nodes in a message, once; the keys for it are its own from then on.
  async function readBlocks() {
    const { createBlocks } = await import("./blocks.js");
    if (blocks) return;
    blocks = createBlocks(app, { field, graphKey: () => app.store.get().graphKey, onChange: () => fit() });
    hint.before(blocks.element);
  }

  async function choose(typed) {
    await readBlocks();
    blocks.choose(typed);
  }

  // Puts nodes into the message, and the question that is asked most: Enter sends it, and writing takes its place.
  async function askAbout(keys) {
    await readBlocks();
    fill(field.value.trim() || t(keys.length > 1 ? "inspector.ask_several_text" : "inspector.ask_text"));
    field.select();
    blocks.point(keys);
  }

  function send() {
    const text = field.value.trim();
    if (!text || !isEnabled) return;
    const taken = blocks?.take(text) ?? {};
    composer.last = text;
    field.value = "";
    fit();
    render();
    onSend(text, taken);
  }

  function fill(text) {
    field.value = text;
    fit();
    render();
    field.focus();
    field.setSelectionRange(text.length, text.length);
  }

  // Brings a message back that did not arrive, unless something else is being written.
  function restore(text, given = []) {
    if (field.value.trim()) return;
    field.value = text;
    if (given.length) readBlocks().then(() => blocks.put(given));
    fit();
    render();
  }

  function setBusy(value) {
    isBusy = value;
    render();
  }

  // `why`: the text in place of a message that cannot be written.
  function setEnabled(value, why = "chat.no_graph") {
    isEnabled = value;
    reason = why;
    render();
  }

  function fit() {
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight, 200)}px`;
    button.disabled = !isBusy && (!field.value.trim() || !isEnabled);
  }

  function render() {
    label.textContent = t("chat.message");
    field.placeholder = t(isEnabled ? "chat.placeholder" : reason);
    field.disabled = !isEnabled;
    blockButton.disabled = !isEnabled || !app.store.get().graphKey;
    blockButton.title = t("block.title");
    blockButton.setAttribute("aria-label", blockButton.title);
    const text = t(isBusy ? "chat.stop" : "chat.send");
    button.setAttribute("aria-label", text);
    button.title = text;
    button.classList.toggle("is-stop", isBusy);
    button.disabled = !isBusy && (!field.value.trim() || !isEnabled);
    replace(button, icon(isBusy ? "stop" : "send"));
    hint.textContent = t("chat.keys");
  }
}
