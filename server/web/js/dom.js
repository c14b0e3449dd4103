// Elements from data. Text becomes text nodes only: nothing a person or a model wrote is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "selected", "open", "indeterminate", "tabIndex"]);
const URLS = new Set(["href", "src", "action", "formaction", "xlink:href"]);

// h("button.primary#go", {type: "button", onclick: fn, dataset: {key}, style: {left: "2px"}}, "Go", child)
export function h(tag, props, ...children) {
  return build(document.createElement(nameOf(tag)), tag, props, children);
}

export function svg(tag, props, ...children) {
  return build(document.createElementNS(SVG, nameOf(tag)), tag, props, children);
}

function nameOf(tag) {
  return /^[a-z0-9-]+/i.exec(tag)?.[0] ?? "div";
}

function build(element, tag, props, children) {
  for (const [, mark, name] of tag.matchAll(/([.#])([^.#]+)/g)) {
    if (mark === "#") element.id = name;
    else element.classList.add(name);
  }
  if (isChild(props)) children.unshift(props);
  else if (props) for (const [name, value] of Object.entries(props)) put(element, name, value);
  append(element, children);
  return element;
}

function isChild(value) {
  return typeof value === "string" || typeof value === "number" || value instanceof Node || Array.isArray(value);
}

function put(element, name, value) {
  if (value === undefined || value === null) return;
  if (name.startsWith("on") && typeof value === "function") element.addEventListener(name.slice(2), value);
  else if (name === "class") element.classList.add(...String(value).split(/\s+/).filter(Boolean));
  else if (name === "dataset") Object.assign(element.dataset, value);
  else if (name === "style") setStyle(element, value);
  else if (PROPERTIES.has(name)) element[name] = value;
  else if (URLS.has(name) && !isSafeUrl(value)) return;
  else if (value === false && !name.startsWith("aria-")) return;
  else element.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : String(value));
}

// Through the object model: the page's policy forbids style attributes.
export function setStyle(element, style) {
  for (const [name, value] of Object.entries(style)) {
    if (name.startsWith("--")) element.style.setProperty(name, value);
    else element.style[name] = value;
  }
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export function replace(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

// A control with its name above it.
export const named = (name, control) => h("label.named", h("span", name), control);

const FOCUSABLE = "button, input, select, textarea, summary, a[href], [tabindex]";

// Returns draw([{key, facts, make}]), which shows these parts in an element. A part is made again only when one of its
// facts is another: focus, caret, scrolling and what a person is typing stay in all others.
export function createParts(parent) {
  let shown = new Map();
  return function draw(parts) {
    const next = new Map();
    for (const { key, facts, make } of parts) {
      const before = shown.get(key);
      const isSame = before?.facts.length === facts.length && facts.every((fact, i) => Object.is(fact, before.facts[i]));
      next.set(key, isSame ? before : { facts, element: make() });
    }
    const focused = focusIn(shown);
    shown = next;
    arrange(parent, [...next.values()].map((part) => part.element));
    if (focused) focusAgain(next.get(focused.key)?.element, focused);
  };
}

function focusIn(parts) {
  const now = document.activeElement;
  for (const [key, { element }] of parts) {
    if (element.contains(now)) return { key, element: now, at: [...element.querySelectorAll(FOCUSABLE)].indexOf(now) };
  }
  return null;
}

// Puts the focus where it was when its part was made again.
function focusAgain(element, { element: before, at }) {
  if (!element || before.isConnected) return;
  (at < 0 ? element : element.querySelectorAll(FOCUSABLE)[at])?.focus({ preventScroll: true });
}

// Draws what is in an element again: the focus stays on the control of the same words, else in the element itself.
export function keepFocus(element, draw) {
  const before = document.activeElement;
  const isInside = element.contains(before);
  draw();
  if (!isInside || element.contains(document.activeElement)) return;
  const same = [...element.querySelectorAll(FOCUSABLE)].find((one) => one.tagName === before.tagName && one.textContent === before.textContent);
  (same ?? element).focus({ preventScroll: true });
}

// Makes these the children of an element; those that are in their place already are not touched.
export function arrange(parent, elements) {
  const wanted = new Set(elements);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  elements.forEach((element, i) => parent.children[i] !== element && parent.insertBefore(element, parent.children[i] ?? null));
}

// Links may lead to web pages, mail and this page's own parts.
export function isSafeUrl(value) {
  const text = String(value).trim();
  if (/^(#|\/(?!\/))/.test(text)) return true;
  return /^(https?:|mailto:|blob:)/i.test(text);
}
