// The page's state: one flat object; a patch replaces what it names; watchers of a part are called when it changed.

export function createStore(initial) {
  let state = { ...initial };
  const watchers = new Set();
  let queue = null;
  let isLate = false;

  function get() {
    return state;
  }

  function set(patch) {
    const before = state;
    state = { ...before, ...patch };
    if (queue) {
      queue.push(before);
      return;
    }
    // A watcher may set again: its change comes after this one, to all, in order.
    queue = [before];
    try {
      while (queue.length) {
        queue.shift();
        for (const watcher of [...watchers]) tell(watcher);
      }
    } finally {
      queue = null;
    }
  }

  function tell(watcher) {
    if (!watchers.has(watcher)) return;
    const value = watcher.select(state);
    if (Object.is(value, watcher.seen)) return;
    const earlier = watcher.seen;
    watcher.seen = value;
    try {
      watcher.fn(value, earlier, state);
    } catch (error) {
      reportError(error); // one broken part must not silence the others
    }
  }

  // Calls fn(value, earlier, state) whenever what `selector` picks is another than before; returns the way to stop.
  function on(selector, fn) {
    const select = typeof selector === "string" ? (s) => s[selector] : selector;
    const watcher = { select, fn, seen: select(isLate ? initial : state) };
    watchers.add(watcher);
    if (isLate) queueMicrotask(() => tell(watcher));
    return () => watchers.delete(watcher);
  }

  // Runs `mount`; what it watches is called soon with what has changed since the page began.
  function catchUp(mount) {
    isLate = true;
    try {
      mount();
    } finally {
      isLate = false;
    }
  }

  return { get, set, on, catchUp };
}
