// Filters of proposals and of the audit log: the values that occur, and what they leave. Pure.

import { stateOf } from "./approvals.js";
import { kindOf } from "./kinds.js";

const HOUR_MS = 3_600_000;
const AGES = [["hour", HOUR_MS], ["day", 24 * HOUR_MS], ["week", 7 * 24 * HOUR_MS]];
const ageOf = (time, now) => AGES.find(([, length]) => now - (time ?? 0) < length)?.[0] ?? "older";

// Each filter gives the value of an item, "" where it has none.
export const PROPOSALS = filtersBy({
  person: (one) => one.asker,
  program: (one) => one.program ?? "",
  automation: (one) => one.automationId ?? "",
  kind: kindOf,
  state: (one) => stateOf(one),
  age: (one, now) => ageOf(one.created, now),
});

export const ENTRIES = filtersBy({
  person: (one) => one.userId ?? "",
  event: (one) => one.event,
  graph: (one) => one.graphKey ?? "",
  age: (one, now) => ageOf(one.at, now),
});

function filtersBy(values) {
  const names = Object.keys(values);
  return { names, passes, valuesOf, toClear };

  // Whether an item passes all filters that are set, or those but `except`.
  function passes(item, chosen, { except = "", now = Date.now() } = {}) {
    return names.every((name) => name === except || !chosen[name] || values[name](item, now) === chosen[name]);
  }

  // Returns the values that occur under a filter among the items that pass the others: `[value, count]`, most frequent first.
  function valuesOf(items, name, chosen, now = Date.now()) {
    const counts = new Map();
    for (const item of items.filter((each) => passes(each, chosen, { except: name, now }))) {
      const value = values[name](item, now);
      if (value) counts.set(value, (counts.get(value) ?? 0) + 1);
    }
    return [...counts].sort(([, one], [, other]) => other - one);
  }

  // Returns the filters without which something would be left: each alone, or else all.
  function toClear(items, chosen, now = Date.now()) {
    const set = names.filter((name) => chosen[name]);
    const alone = set.filter((name) => items.some((one) => passes(one, chosen, { except: name, now })));
    return alone.length ? alone : set;
  }
}
