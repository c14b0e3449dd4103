// Keys that are pressed while something is under way wait for it: each acts on what the page shows after the one before.

const MOST_KEYS = 200;
const EDITING = { Backspace: "delete", Delete: "forwardDelete" };

// Returns `until(promise)`, which returns the promise: keys pressed before it settles are held, and pressed again after.
// What a person types into a field or a dialog is never held. A click ends it: the person has gone elsewhere.
export function createKeyQueue() {
  const held = [];
  const underWay = new Set();
  let isReplaying = false;

  function hold(event) {
    if (!event.isTrusted || (!underWay.size && !held.length) || held.length >= MOST_KEYS) return;
    if (event.ctrlKey || event.metaKey || event.altKey || (event.key.length > 1 && !["Enter", "Escape", ...Object.keys(EDITING)].includes(event.key))) return;
    const isElsewhere = isTyping(event.target) && !event.target.closest("[aria-busy=true]"); // of a form that is being sent it is not
    if (!held.length && (isElsewhere || document.querySelector("dialog[open]"))) return;
    held.push({ key: event.key, shiftKey: event.shiftKey });
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  function until(promise) {
    underWay.add(promise);
    return promise.finally(() => {
      underWay.delete(promise);
      setTimeout(replay); // after what follows from it
    });
  }

  function replay() {
    if (isReplaying) return;
    isReplaying = true;
    try {
      while (held.length && !underWay.size) press(held.shift());
    } finally {
      isReplaying = false;
    }
  }

  addEventListener("keydown", hold, true);
  addEventListener("pointerdown", () => (held.length = 0), true);
  return { until };
}

export function isTyping(element) {
  return element instanceof HTMLElement && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName));
}

// Does what the browser does with a key, at the element that has the focus now.
function press({ key, shiftKey }) {
  const element = document.activeElement ?? document.body;
  if (!element.dispatchEvent(new KeyboardEvent("keydown", { key, shiftKey, bubbles: true, cancelable: true }))) return;
  if (isTyping(element)) write(element, key);
  else if (["Enter", " "].includes(key) && element.matches("button, summary, a")) element.click();
}

function write(element, key) {
  if (key.length === 1) document.execCommand("insertText", false, key);
  else if (EDITING[key]) document.execCommand(EDITING[key]);
  else if (key === "Enter" && element.tagName === "TEXTAREA") document.execCommand("insertLineBreak");
  else if (key === "Enter") element.form?.requestSubmit();
}
