// Keys that work anywhere on the page; what is typed into a field is left alone.

import { panelsFor } from "./panels.js";

const REGIONS = ["canvas", "side", "top"];

export function createKeys(app) {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if ((event.ctrlKey || event.metaKey) && !event.shiftKey && event.key.toLowerCase() === "k") {
      import("./find/index.js").then(({ openFind }) => openFind(app)).catch(reportError);
      return event.preventDefault();
    }
    if (event.key === "F6") return nextRegion(event);
    const panel = event.altKey && /^[1-9]$/.test(event.key) && panelsFor(app.store.get().me)[event.key - 1];
    if (panel) {
      app.store.set({ panel });
      return event.preventDefault();
    }
    if (isTyping(event.target)) return undefined;
    if (event.key === "?") import("./help.js").then(({ showHelp }) => showHelp(app)).catch(reportError);
    else if (event.key === "/") focusMessage(app);
    else if (app.canvas.key(event)) return event.preventDefault();
    else return undefined;
    return event.preventDefault();
  });
}

export function isTyping(element) {
  return element instanceof HTMLElement && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName));
}

function focusMessage(app) {
  app.store.set({ panel: "chat" });
  requestAnimationFrame(() => document.querySelector("#panel-chat textarea")?.focus());
}

function nextRegion(event) {
  event.preventDefault();
  const here = REGIONS.findIndex((id) => document.getElementById(id).contains(document.activeElement));
  const step = event.shiftKey ? REGIONS.length - 1 : 1;
  const id = REGIONS[(here + step + REGIONS.length) % REGIONS.length];
  const region = document.getElementById(id);
  const first = region.querySelector(id === "canvas" ? ".stage" : "button:not([disabled])") ?? region;
  first.focus();
}
