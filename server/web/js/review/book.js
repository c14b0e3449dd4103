// The approvals that the page shows, one copy each: news of one reach all its cards.
//
// What is open and shown is asked for again when the server says that something was proposed or decided.

import { ApiError } from "../api.js";
import { fromDocument, isOpen } from "./approvals.js";
import { getApproval } from "./service.js";

const MAX_ASKED = 12;
const NEWS = ["ai:review", "ai:apply_action", "open"];
const books = new WeakMap();

// Returns the page's book.
export function bookOf(app) {
  if (!books.has(app)) books.set(app, createBook(app));
  return books.get(app);
}

function createBook(app) {
  const pages = new Map();
  let asking = false;
  let isStale = false; // news came while something was asked for

  function page(id) {
    if (!pages.has(id)) pages.set(id, { approval: null, readers: new Set() });
    return pages.get(id);
  }

  function put(approval) {
    const one = page(approval.id);
    if (one.approval && !isOpen(one.approval) && isOpen(approval)) return one.approval; // older news
    one.approval = approval;
    for (const reader of [...one.readers]) reader(one.approval);
    return one.approval;
  }

  // Calls `fn` with every change of an approval; returns the way to stop.
  function read(id, fn) {
    page(id).readers.add(fn);
    return () => page(id).readers.delete(fn);
  }

  // `isAll`: also what is decided, whose titles are of another language now.
  async function refresh({ isAll = false } = {}) {
    if (!app.socket.isOpen) return;
    if (asking) {
      isStale = true;
      return;
    }
    const open = [...pages.values()].filter((one) => one.readers.size && one.approval && (isAll || isOpen(one.approval)));
    asking = true;
    isStale = false;
    try {
      for (const one of open.slice(0, MAX_ASKED)) put(fromDocument(await getApproval(app.api, one.approval.id)));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // not reachable, or signed out: the next look may do better
    } finally {
      asking = false;
    }
    if (isStale) refresh();
  }

  for (const type of NEWS) app.socket.on(type, () => refresh());
  app.store.on("lang", () => refresh({ isAll: true }));
  return { put, read, refresh, get: (id) => pages.get(id)?.approval ?? null };
}
