// What part of the canvas is seen: pan, zoom, fit; by wheel, pointer, fingers and calls.

import { clamp } from "./model.js";

export const ZOOM = { least: 0.05, most: 2.5, step: 1.25 };
const MARGIN = 0.055; // of the width
const REST_MS = 180;

// `grid` is the dotted ground. Colours and sizes are set on it alone: what is set on the stage would make the
// browser look at every node's style again, in every frame.
export function createView(stage, world, grid, onChange) {
  let x = 0, y = 0, k = 1;
  let frame = 0;
  let rest = 0;
  let sharp = 1; // the zoom at which the picture was drawn
  let moving = 0; // an animation that runs
  const reduced = matchMedia("(prefers-reduced-motion: reduce)");

  function put(next) {
    x = next.x ?? x;
    y = next.y ?? y;
    k = clamp(next.k ?? k, ZOOM.least, ZOOM.most);
    frame ||= requestAnimationFrame(draw);
  }

  function draw() {
    frame = 0;
    world.style.transform = `translate(${x}px, ${y}px) scale(${k})`;
    const step = gridStep() * k;
    grid.style.backgroundSize = `${step}px ${step}px`;
    grid.style.backgroundPosition = `${x}px ${y}px`;
    if (k !== sharp) {
      clearTimeout(rest);
      rest = setTimeout(sharpen, REST_MS);
    }
    onChange({ x, y, k });
  }

  // While it zooms the picture is scaled as it is; at rest it is drawn again.
  function sharpen() {
    sharp = k;
    world.style.willChange = "auto";
    requestAnimationFrame(() => requestAnimationFrame(() => (world.style.willChange = "")));
  }

  function gridStep() {
    return k > 0.7 ? 20 : k > 0.3 ? 40 : k > 0.12 ? 100 : 200;
  }

  // Measured when it changes: asking in every frame would have the page laid out twice.
  let measured = null;
  const measure = () => (measured ??= { w: stage.clientWidth, h: stage.clientHeight, place: stage.getBoundingClientRect() });
  const size = () => ({ w: measure().w, h: measure().h });
  new ResizeObserver(() => (measured = null)).observe(stage);

  function zoomAt(sx, sy, factor) {
    const next = clamp(k * factor, ZOOM.least, ZOOM.most);
    const ratio = next / k;
    put({ x: sx - (sx - x) * ratio, y: sy - (sy - y) * ratio, k: next });
  }

  function zoomBy(factor) {
    stopMoving();
    const { w, h } = size();
    const next = clamp(k * factor, ZOOM.least, ZOOM.most);
    glide({ k: next, x: w / 2 - ((w / 2 - x) * next) / k, y: h / 2 - ((h / 2 - y) * next) / k });
  }

  function panBy(dx, dy) {
    stopMoving();
    put({ x: x + dx, y: y + dy });
  }

  // Shows a box {x1, y1, x2, y2} whole, at most at `most` zoom. `inset` keeps room: {left, top, right, bottom}.
  function fit(box, { most = 1, animate = true, inset = {} } = {}) {
    const { w, h } = size();
    if (!box || !w || !h) return;
    const { left = 0, top = 0, right = 0, bottom = 0 } = inset;
    const margin = clamp(w * MARGIN, 16, 56);
    const room = { w: Math.max(60, w - left - right - 2 * margin), h: Math.max(60, h - top - bottom - 2 * margin) };
    const next = clamp(Math.min(room.w / Math.max(1, box.x2 - box.x1), room.h / Math.max(1, box.y2 - box.y1)), ZOOM.least, most);
    const to = {
      k: next,
      x: left + (w - left - right) / 2 - ((box.x1 + box.x2) / 2) * next,
      y: top + (h - top - bottom) / 2 - ((box.y1 + box.y2) / 2) * next,
    };
    if (animate) glide(to);
    else {
      stopMoving();
      put(to);
    }
  }

  // Centres a point; zooms to `least` if it is further away than that.
  function centre(px, py, { least = 0, animate = true, inset = {} } = {}) {
    const { w, h } = size();
    const next = Math.max(k, least);
    const { left = 0, top = 0, right = 0, bottom = 0 } = inset;
    const to = { k: next, x: left + (w - left - right) / 2 - px * next, y: top + (h - top - bottom) / 2 - py * next };
    if (animate) glide(to);
    else put(to);
  }

  function glide(to, ms = 260) {
    stopMoving();
    if (reduced.matches || document.visibilityState !== "visible") return put(to);
    const from = { x, y, k };
    const began = performance.now();
    const step = (now) => {
      const p = clamp((now - began) / ms, 0, 1);
      const e = 1 - (1 - p) ** 3;
      const nk = from.k * (to.k / from.k) ** e;
      // The point in the middle travels straight while the zoom changes evenly for the eye.
      const q = Math.abs(to.k - from.k) < 1e-6 ? e : (nk - from.k) / (to.k - from.k);
      put({ k: nk, x: from.x + (to.x - from.x) * q, y: from.y + (to.y - from.y) * q });
      moving = p < 1 ? requestAnimationFrame(step) : 0;
    };
    moving = requestAnimationFrame(step);
    return undefined;
  }

  function stopMoving() {
    cancelAnimationFrame(moving);
    moving = 0;
  }

  function toWorld(clientX, clientY) {
    const box = stage.getBoundingClientRect();
    return { x: (clientX - box.left - x) / k, y: (clientY - box.top - y) / k };
  }

  stage.addEventListener("wheel", (event) => {
    if (event.target.closest(".scrolls")) return;
    event.preventDefault();
    stopMoving();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? stage.clientHeight : 1;
    const box = measure().place;
    if (event.ctrlKey || event.metaKey) {
      const factor = Math.exp(-clamp(event.deltaY * unit, -120, 120) * 0.006);
      zoomAt(event.clientX - box.left, event.clientY - box.top, factor);
    } else if (event.shiftKey && !event.deltaX) put({ x: x - event.deltaY * unit });
    else put({ x: x - event.deltaX * unit, y: y - event.deltaY * unit });
  }, { passive: false });

  return {
    get: () => ({ x, y, k }), put, fit, centre, zoomBy, zoomAt, panBy, toWorld, size, stopMoving,
    zoomTo: (value) => zoomBy(value / k),
    seen: () => {
      const { w, h } = size();
      return { x1: -x / k, y1: -y / k, x2: (w - x) / k, y2: (h - y) / k };
    },
  };
}
