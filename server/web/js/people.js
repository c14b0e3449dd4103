// What people are called: `names` of the store, read when somebody is shown whose name is not known yet.

import { ApiError } from "./api.js";

const AGAIN_MS = 30_000; // who has no name now may sign in under one

// Returns `nameOf(userId)`, the name as it is known now, else the id, and `named(userId)`, which waits for it.
export function createPeople({ store, api }) {
  const missing = new Map(); // user id -> when it was looked for
  let reading = null;

  function nameOf(userId) {
    const name = store.get().names.get(userId);
    if (!name) look(userId);
    return name ?? String(userId ?? "");
  }

  async function named(userId) {
    if (!store.get().names.has(userId)) await look(userId);
    return nameOf(userId);
  }

  function look(userId) {
    if (!userId || Date.now() - (missing.get(userId) ?? 0) < AGAIN_MS) return reading;
    missing.set(userId, Date.now());
    return (reading ??= read().finally(() => (reading = null)));
  }

  async function read() {
    try {
      await null; // those that are shown together are asked for once
      const { names } = await api.get("/api/people");
      store.set({ names: new Map(Object.entries(names)) });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // the id stays
    }
  }

  return { nameOf, named };
}
