/** Which conversation this tab last had about a graph. */

/** Return its thread, or null. */
export function remembered(graphKey) {
  try {
    return sessionStorage.getItem(`nodius.thread.${graphKey}`);
  } catch {
    return null;
  }
}

export function remember(graphKey, threadId) {
  if (!graphKey) return;
  try {
    if (threadId) sessionStorage.setItem(`nodius.thread.${graphKey}`, threadId);
    else sessionStorage.removeItem(`nodius.thread.${graphKey}`);
  } catch {
    // without storage a reload begins anew
  }
}
