// The conversation's scrolling log: it stays at the end unless the reader has scrolled up.

import { h } from "../dom.js";
import { icon } from "../icons.js";

const NEAR_PX = 48;

// Returns the log: `element`, `content`, `stay()` after something grew, `toEnd()`, `say(text)` for screen readers.
export function createLog(app) {
  const content = h("div.log-content");
  const scroller = h("div.log", { role: "log", "aria-live": "off", tabindex: "0", "aria-label": app.t("chat.log") }, content);
  const heard = h("div.sr-only", { "aria-live": "polite" });
  const jump = h("button.log-jump", { type: "button", hidden: true, title: app.t("chat.to_end"), "aria-label": app.t("chat.to_end"), onclick: () => toEnd() }, icon("chevron"));
  let isAtEnd = true;
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
      if (isAtEnd) scroller.scrollTop = top = scroller.scrollHeight - scroller.clientHeight;
      else jump.hidden = false;
      mark();
    });
  }

  function mark() {
    scroller.dataset.atEnd = String(isAtEnd);
    if (isAtEnd) jump.hidden = true;
  }

  function toEnd() {
    isAtEnd = true;
    stay();
  }

  function say(text) {
    heard.append(h("p", text));
    while (heard.childElementCount > 6) heard.firstChild.remove();
  }

  return { element: h("div.log-box", scroller, jump, heard), scroller, content, stay, toEnd, say };
}
