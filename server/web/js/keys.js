// Keys that work on the whole page, and where single keys act: on the canvas or on a card, nowhere else.

import { createKeyQueue, isTyping } from "./key-queue.js";
import { panelsFor } from "./panels.js";

const REGIONS = ["canvas", "side", "top"];
const PLACES = ".stage, .home-holder, .card, .review-list";

// Returns `until(promise)`, see `key-queue.js`.
export function createKeys(app) {
  const queue = createKeyQueue();

  // Shows what is read when it is first needed.
  function show(reading) {
    queue.until(reading);
    reading.catch(reportError);
  }

  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if ((event.ctrlKey || event.metaKey) && !event.shiftKey && event.key.toLowerCase() === "k") {
      show(import("./find/index.js").then(({ openFind }) => openFind(app)));
      return event.preventDefault();
    }
    if (event.key === "F6") return nextRegion(event);
    const panel = event.altKey && /^[1-9]$/.test(event.key) && panelsFor(app.store.get().me)[event.key - 1];
    if (panel) {
      app.store.set({ panel });
      return event.preventDefault();
    }
    if (isTyping(event.target)) return undefined;
    if (event.key === "?" && takesLetters(event.target)) show(import("./help.js").then(({ showHelp }) => showHelp(app)));
    else if (event.key === "/" && takesLetters(event.target)) focusMessage(app);
    else if (app.canvas.key(event)) return event.preventDefault();
    else return undefined;
    return event.preventDefault();
  });
  return { until: queue.until };
}

// Whether single keys act where the focus is. Where nothing has it, a field may just have lost it.
export function takesLetters(element) {
  return element instanceof Element && !isTyping(element) && Boolean(element.closest(PLACES));
}

function focusMessage(app) {
  app.store.set({ panel: "chat" });
  document.querySelector("#panel-chat textarea")?.focus();
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
