// The conversation's scrolling log: it stays at the end unless the reader has scrolled up.

import { h } from "../dom.js";
import { icon } from "../icons.js";

const NEAR_PX = 48;
const ABOVE_PX = 8;

// Returns the log: `element`, `content`, `stay()` after something grew, `toEnd()`, `say(text)` for screen readers.
export function createLog(app) {
  const content = h("div.log-content");
  const scroller = h("div.log", { role: "log", "aria-live": "off", tabindex: "0", "aria-label": app.t("chat.log") }, content);
  const heard = h("div.sr-only", { "aria-live": "polite" });
  const jump = h("button.log-jump", { type: "button", hidden: true, title: app.t("chat.to_end"), "aria-label": app.t("chat.to_end"), onclick: () => toEnd(true) }, icon("chevron"));
  let isAtEnd = true;
  let kept = null; // what stays in view from its beginning, however long it grows
  let frame = 0;
  let top = 0;

  scroller.addEventListener("scroll", () => {
    const isNear = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR_PX;
    // What grows below moves the end away; only a reader moves up.
    if (isNear) isAtEnd = true;
    else if (scroller.scrollTop < top - 1) isAtEnd = false;
    top = scroller.scrollTop;
    mark();
  }, { passive: true });
  new ResizeObserver(() => stay()).observe(content);
  new ResizeObserver(() => stay()).observe(scroller);
  app.store.on("lang", () => {
    scroller.setAttribute("aria-label", app.t("chat.log"));
    jump.title = app.t("chat.to_end");
    jump.setAttribute("aria-label", jump.title);
  });

  function stay() {
    if (frame) return;
    frame = requestAnimationFrame(() => {
      frame = 0;
      if (isAtEnd) scroller.scrollTop = top = place();
      else jump.hidden = false;
      mark();
    });
  }

  // The end, or what is kept in view at the top.
  function place() {
    const end = scroller.scrollHeight - scroller.clientHeight;
    if (!kept?.isConnected) return end;
    const begin = kept.getBoundingClientRect().top - scroller.getBoundingClientRect().top + scroller.scrollTop - ABOVE_PX;
    return Math.min(end, Math.max(0, begin));
  }

  function mark() {
    scroller.dataset.atEnd = String(isAtEnd);
    if (isAtEnd) jump.hidden = scroller.scrollHeight - scroller.clientHeight - scroller.scrollTop < NEAR_PX;
  }

  // Lets an answer grow downwards: its beginning does not leave the view.
  function keep(element) {
    kept = element;
    stay();
  }

  // Goes on to the end; `isWhole`: also where the beginning of an answer leaves the view.
  function toEnd(isWhole = false) {
    isAtEnd = true;
    if (isWhole) kept = null;
    stay();
  }

  function say(text) {
    heard.append(h("p", text));
    while (heard.childElementCount > 6) heard.firstChild.remove();
  }

  return { element: h("div.log-box", scroller, jump, heard), scroller, content, stay, keep, toEnd, say };
}
