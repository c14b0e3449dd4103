// What an answer rests on: the nodes that were retrieved for its question, as chips.

import { h, replace } from "../dom.js";
import { nodeChip } from "./links.js";

const SHOWN = 6;

// Returns `element` and `show(keys, wordsOnly)`; many are folded until a person asks for all.
export function createLooked(app) {
  const element = h("div.looked", { hidden: true });
  let known = [];
  let isWhole = false;
  let isWordsOnly = false;

  function show(keys, wordsOnly = false) {
    if (!Array.isArray(keys) || !keys.length) return;
    [known, isWordsOnly] = [keys, wordsOnly];
    draw();
  }

  function draw() {
    const { t } = app;
    const shown = isWhole ? known : known.slice(0, SHOWN);
    element.hidden = !known.length;
    replace(element, h("span.looked-label", t("chat.looked")), shown.map((key) => nodeChip(app, key)), known.length > SHOWN ? more(t) : null, isWordsOnly ? h("span.looked-label", t("words_only")) : null);
  }

  function more(t) {
    const label = isWhole ? t("chat.looked_less") : t("chat.looked_more", { n: known.length - SHOWN });
    return h("button.looked-more", { type: "button", "aria-expanded": String(isWhole), onclick: () => {
      isWhole = !isWhole;
      draw();
      element.querySelector(".looked-more").focus();
    } }, label);
  }

  return { element, show };
}
