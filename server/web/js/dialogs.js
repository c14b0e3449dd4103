// Toasts and dialogs: short news in the corner, and questions that want an answer first.

import { append, h, replace } from "./dom.js";
import { icon } from "./icons.js";

const SHOWN_MS = { info: 5000, ok: 4000, warn: 9000, error: 12000, news: 20000 };
const ICONS = { info: "info", ok: "check", warn: "warn", error: "error", news: "review" };

export function createDialogs({ t }) {
  const root = document.getElementById("dialogs");
  const corner = document.getElementById("toasts");

  // toast("error", "Not done: …", {action: {label, run}}); the same news twice is shown once. What is kept stays until it is closed.
  function toast(kind, text, { action, isKept = false } = {}) {
    for (const shown of corner.children) if (shown.dataset.text === text) shown.remove();
    const close = () => made.remove();
    const made = h("div.toast", { class: kind, role: kind === "error" ? "alert" : "status", dataset: { text, ...(isKept ? { kept: "" } : {}) } },
      icon(ICONS[kind] ?? "info"), h("span.toast-text", text),
      action ? h("button.link", { type: "button", onclick: () => (close(), action.run()) }, action.label) : null,
      h("button.icon-button", { type: "button", "aria-label": t("app.close"), onclick: close }, icon("close")));
    corner.append(made);
    while (corner.children.length > 4) (corner.querySelector(".toast:not([data-kept])") ?? corner.firstChild).remove();
    if (isKept) return close;
    let timer = setTimeout(close, SHOWN_MS[kind] ?? 5000);
    made.addEventListener("pointerenter", () => clearTimeout(timer));
    made.addEventListener("pointerleave", () => (timer = setTimeout(close, 2500)));
    return close;
  }

  // Opens a dialog. `content` is an element or several; returns {element, close, closed}.
  function openDialog({ title, content, actions = [], modal = true, closable = true, wide = false, onClose } = {}) {
    const heading = h("h2", { id: `dialog-${Math.random().toString(36).slice(2)}` }, title);
    const close = () => element.open && element.close();
    const element = h("dialog", { class: wide ? "wide" : undefined, "aria-labelledby": heading.id },
      h("div.dialog-head", heading,
        closable ? h("button.icon-button", { type: "button", "aria-label": t("app.close"), onclick: close }, icon("close")) : null),
      h("div.dialog-body", [content].flat()),
      actions.length ? h("div.dialog-actions", actions) : null);
    const closed = new Promise((resolve) => {
      element.addEventListener("close", () => {
        element.remove();
        onClose?.(element.returnValue);
        resolve(element.returnValue);
      });
    });
    if (!closable) element.addEventListener("cancel", (event) => event.preventDefault());
    element.addEventListener("click", (event) => event.target === element && closable && isOutside(element, event) && close());
    root.append(element);
    if (modal) element.showModal();
    else element.show();
    return { element, close, closed };
  }

  function isOutside(element, { clientX: x, clientY: y }) {
    const box = element.getBoundingClientRect();
    return x < box.left || x > box.right || y < box.top || y > box.bottom;
  }

  // Resolves to whether the person agrees.
  async function confirm({ title, text, ok = t("app.ok"), danger = false, details }) {
    let agreed = false;
    const agree = h("button", { type: "button", class: danger ? "danger" : "primary", onclick: () => ((agreed = true), dialog.close()) }, ok);
    const dialog = openDialog({
      title, content: [text ? h("p", text) : null, details ?? null].filter(Boolean),
      actions: [h("button", { type: "button", onclick: () => dialog.close() }, t("app.cancel")), agree],
    });
    agree.focus();
    await dialog.closed;
    return agreed;
  }

  // Resolves to a text, or null.
  async function prompt({ title, label, value = "", ok = t("app.ok") }) {
    let given = null;
    const field = h("input", { id: "prompt-text", value, maxlength: 200, required: true, autocomplete: "off" });
    const form = h("form", { onsubmit: (event) => {
      event.preventDefault();
      given = field.value.trim() || null;
      dialog.close();
    } }, h("label", { for: "prompt-text" }, label), field,
      h("div.dialog-actions", h("button", { type: "button", onclick: () => dialog.close() }, t("app.cancel")), h("button.primary", { type: "submit" }, ok)));
    const dialog = openDialog({ title, content: form });
    field.select();
    await dialog.closed;
    return given;
  }

  return { toast, openDialog, confirm, prompt };
}

// Fills an element with a message in the middle: empty, failed, loading.
export function showNotice(element, { name, title, text, actions = [], busy = false }) {
  return replace(element, append(h("div.notice", { role: busy ? "status" : undefined }), [
    busy ? h("span.spinner", { "aria-hidden": "true" }) : icon(name ?? "graph"),
    title ? h("h2", title) : null, text ? h("p", text) : null, actions.length ? h("div.notice-actions", actions) : null,
  ]));
}
