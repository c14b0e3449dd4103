// A field of a node that is written as text while others change it too: what was changed is sent by its path. Pure.

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);

// Returns what leads from one JSON value to another: `[{path, value}]`, without `value` where something is gone. A list
// is changed whole.
export function changesOf(before, after, path = []) {
  if (isSame(before, after)) return [];
  if (!isObject(before) || !isObject(after)) return [{ path, value: after }];
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names.flatMap((name) => {
    if (!Object.hasOwn(after, name)) return [{ path: [...path, name] }];
    if (!Object.hasOwn(before, name)) return [{ path: [...path, name], value: after[name] }];
    return changesOf(before[name], after[name], [...path, name]);
  });
}

// Those of `mine` that change what `theirs` changed otherwise.
export function clashesOf(mine, theirs) {
  return mine.filter((one) => theirs.some((other) => isWithin(one.path, other.path) && !(isSame(one.path, other.path) && isSame(one.value, other.value))));
}

// Whether one path leads to the other, or they are the same.
const isWithin = (one, other) => Array.from({ length: Math.min(one.length, other.length) }, (_, i) => one[i] === other[i]).every(Boolean);
