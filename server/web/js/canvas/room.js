// The room of the names below tiles, of what the nodes do, and of labels of edges, so that no text covers another. Knows no
// elements.
//
// The room of one tile is found from what stands around it, when it is shown: a sheet of thousands of nodes costs only what
// is seen. Two neighbours share the way between them; a short name leaves what it does not need to a long one.

import { SIZES } from "./detail.js";

const LARGEST = SIZES.at(-1);
const CELL = 300; // canvas points
const BELOW = 4; // from a tile to its name
const GAP_EM = { name: 0.45, line: 0.8 }; // between texts
const LABEL = { high: 1.6, wide: 14, pad: 1.4 }; // of an edge, in em
const ALONG = [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8]; // an edge: where its label may stand
const MOST_AROUND = 60; // neighbours that are looked at
const MOST_CELLS = 64; // of one box; larger ones are grounds, not obstacles
const MOST_WORDS = 4000; // of known width
const LEAST_WIDTH = 178; // of a name or line that nothing limits
const WIDEST_EM = 9.5; // or this, where it is more
const LEAST_LINE_EM = 6; // a line with less room says nothing
const SLACK = 1.03; // of a measured width: letters stand on whole points
const NAME_LINES = { usual: 2, most: 3 };
const LINE_EM = 1.2; // height of a line of a name
const EFFECT_EM = 1.3;
const REACH = (NAME_LINES.most * LINE_EM + EFFECT_EM) * LARGEST; // of the texts below a tile

// `widthOf(word)` is the width of a word in a name's weight, in em.
export function createRoom(widthOf) {
  const words = new Map();
  let cells = new Map(); // "x y" -> boxes
  let tiles = new Map(); // key -> box
  let sizes = { name: 13, effect: 11 };

  // Takes the boxes of a sheet: [{key, shape, x, y, w, h, name}].
  function set(boxes) {
    cells = new Map();
    tiles = new Map();
    for (const given of boxes) {
      const box = { ...given, isTile: given.shape === "tile", cx: given.x + given.w / 2, top: given.y + given.h + BELOW };
      const names = cellsOf(box.isTile ? around(box) : box);
      if (names.length > MOST_CELLS) continue;
      for (const name of names) {
        if (!cells.has(name)) cells.set(name, []);
        cells.get(name).push(box);
      }
      if (box.isTile) tiles.set(box.key, box);
    }
  }

  // Takes the sizes in canvas points at which names and lines are drawn.
  function resize(next) {
    sizes = next;
    for (const box of tiles.values()) box.claimed = box.named = box.lined = null;
  }

  const gap = () => GAP_EM.name * sizes.name;
  const widest = () => Math.max(LEAST_WIDTH, WIDEST_EM * sizes.name);

  // A tile with all the room that its texts might take at any size.
  function around({ cx, x, w, y, h }) {
    const half = Math.max(w / 2, (WIDEST_EM * LARGEST) / 2);
    return { x: cx - half, y, w: 2 * half, h: h + BELOW + REACH };
  }

  function cellsOf({ x, y, w, h }) {
    const [x1, x2, y1, y2] = [x, x + w, y, y + h].map((value) => Math.floor(value / CELL));
    if ((x2 - x1 + 1) * (y2 - y1 + 1) > MOST_CELLS) return Array(MOST_CELLS + 1);
    const names = [];
    for (let i = x1; i <= x2; i += 1) for (let j = y1; j <= y2; j += 1) names.push(`${i} ${j}`);
    return names;
  }

  function near(box) {
    const found = new Set();
    for (const name of cellsOf(around(box))) for (const one of cells.get(name) ?? []) if (one !== box && found.size < MOST_AROUND) found.add(one);
    return [...found];
  }

  // What a name may take as far as only other nodes' shapes limit it, and the width that it needs for whole words.
  function claim(box) {
    if (box.claimed) return box.claimed;
    const line = LINE_EM * sizes.name;
    const others = near(box);
    const down = Math.min(Infinity, ...others.filter((one) => one.y >= box.top - BELOW && one.x < box.x + box.w && one.x + one.w > box.x).map((one) => one.y - box.top));
    const lines = Math.min(NAME_LINES.most, Math.max(1, Math.floor((down - 2) / line)));
    const most = Math.min(widest(), 2 * sides(box, others, box.top, box.top + lines * line));
    const need = Math.min(most, narrowest(box.name, Math.min(lines, NAME_LINES.usual)));
    const word = Math.min(most, longest(box.name));
    return (box.claimed = { others, down, lines, most, need, word });
  }

  // Half of the width that shapes beside a text leave free between two heights.
  function sides({ cx, x, w }, others, y1, y2) {
    let half = Infinity;
    for (const one of others) {
      if (one.y >= y2 || one.y + one.h <= y1) continue;
      if (one.x >= x + w) half = Math.min(half, one.x - cx - gap() / 2);
      else if (one.x + one.w <= x) half = Math.min(half, cx - one.x - one.w - gap() / 2);
    }
    return half;
  }

  // The width and lines of a name beside the others.
  function named(box) {
    if (box.named) return box.named;
    const { others, lines, most, need, word } = claim(box);
    const line = LINE_EM * sizes.name;
    let width = most;
    for (const one of others) {
      if (!one.isTile) continue;
      const away = Math.abs(one.cx - box.cx);
      const other = claim(one);
      if (away < gap() * 2 || !meet(box.top, lines * line, one.top, other.lines * line)) continue;
      width = Math.min(width, share(2 * (away - gap()), [need, word], [other.need, other.word]));
    }
    const used = Math.min(lines, wrapped(box.name, width));
    return (box.named = { width, used, lines: Math.max(used, Math.min(lines, NAME_LINES.usual)), half: Math.min(width, whole(box.name)) / 2 });
  }

  // What one of two gets of a width: half, or more where the other needs less. Each is [all, its longest word].
  function share(both, [mine, myWord], [theirs, theirWord]) {
    const half = both / 2;
    if (mine > half && theirs <= half) return both - theirs;
    if (mine <= half) return theirs > half ? mine : half;
    if (myWord > half && theirWord <= half) return Math.min(myWord, both - theirWord);
    return theirWord > half && myWord <= half ? both - Math.min(theirWord, both - myWord) : half;
  }

  const meet = (y, high, otherY, otherHigh) => y < otherY + otherHigh && otherY < y + high;

  // The width of the line below a name; 0 where it has no room.
  function lineOf(box) {
    return (box.lined ??= foundLine(box));
  }

  function foundLine(box) {
    const { others, down } = claim(box);
    const [line, high] = [LINE_EM * sizes.name, EFFECT_EM * sizes.effect];
    const between = GAP_EM.line * sizes.effect;
    const top = box.top + named(box).used * line;
    if (top + high > box.top + down) return 0;
    let half = Math.min(widest() / 2, sides(box, others, top, top + high));
    for (const one of others) {
      if (!one.isTile) continue;
      const away = Math.abs(one.cx - box.cx);
      const { used, half: taken } = named(one);
      if (meet(top, high, one.top, used * line)) half = Math.min(half, away - between - taken);
      if (meet(top, high, one.top + used * line, high)) half = Math.min(half, (away - between) / 2);
    }
    return half * 2 < LEAST_LINE_EM * sizes.effect ? 0 : half * 2;
  }

  // The room of a tile: {width, lines} of its name, and the width of its line. Units: canvas points.
  function of(key) {
    const box = tiles.get(key);
    if (!box) return null;
    const { width, lines } = named(box);
    return { width: Math.floor(width), lines, line: Math.floor(lineOf(box)) };
  }

  // Where labels of edges stand: `at` gives the point of an edge from 0 to 1. A label without room is null.
  function placed(labels) {
    const taken = [];
    return labels.map(({ text, at }) => {
      const [w, h] = [Math.min(LABEL.wide, wide(text) / sizes.name + LABEL.pad) * sizes.effect, LABEL.high * sizes.effect];
      for (const point of ALONG.map(at)) {
        const box = { x: point.x - w / 2, y: point.y - h / 2, w, h };
        if (taken.some((one) => crosses(one, box)) || !isFree(box)) continue;
        taken.push(box);
        return point;
      }
      return null;
    });
  }

  const crosses = (one, other) => one.x < other.x + other.w && other.x < one.x + one.w && meet(one.y, one.h, other.y, other.h);

  function isFree(box) {
    return cellsOf(box).every((name) => (cells.get(name) ?? []).every((one) => !crosses(one, box) && !(one.isTile && textsOf(one).some((text) => crosses(text, box)))));
  }

  // The boxes of the texts below a tile.
  function textsOf(box) {
    const [line, high] = [LINE_EM * sizes.name, EFFECT_EM * sizes.effect];
    const { used, half } = named(box);
    const [name, effect] = [[half, box.top, used * line], [lineOf(box) / 2, box.top + used * line, high]].map(([side, y, h]) => ({ x: box.cx - side, y, w: 2 * side, h }));
    return lineOf(box) ? [name, effect] : [name];
  }

  function wide(word) {
    if (words.size > MOST_WORDS) words.clear();
    if (!words.has(word)) words.set(word, widthOf(word));
    return words.get(word) * sizes.name * SLACK;
  }

  const partsOf = (name) => name.split(/\s+/).filter(Boolean).slice(0, 40);
  const longest = (name) => Math.max(0, ...partsOf(name).map(wide));
  const whole = (name) => wide(partsOf(name).join(" "));

  // The number of lines of a name in a width; words that are too long break.
  function wrapped(name, width) {
    let [count, left] = [0, -1];
    for (const word of partsOf(name)) {
      const long = wide(word);
      if (left >= long + wide(" ")) left -= long + wide(" ");
      else {
        const lines = Math.max(1, Math.ceil(long / width));
        count += lines;
        left = lines * width - long;
      }
    }
    return Math.max(1, count);
  }

  // The least width in which whole words fill so many lines.
  function narrowest(name, lines) {
    let [least, most] = [longest(name), whole(name)];
    if (lines === 1) return most;
    while (most - least > 4) {
      const middle = (least + most) / 2;
      if (wrapped(name, middle) > lines) least = middle;
      else most = middle;
    }
    return most;
  }

  return { set, resize, of, placed, get isNear() { return sizes.name === SIZES[0]; } };
}
