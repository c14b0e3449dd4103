// What an answer highlights on the canvas, as `server/web/js/canvas/highlights.js` reads it, and its colours.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { highlightsOf } from "../../server/web/js/canvas/highlights.js";

const nodes = new Map(["charge", "ship", "refund", "warn", "log", "sort"].map((key) => [key, { _key: key }]));
const ends = { paid: ["charge", "ship"], failed: ["charge", "refund"], sent: ["ship", "log"], warned: ["refund", "warn"], noted: ["warn", "log"], sorted: ["sort", "charge"] };
const edges = new Map(Object.entries(ends).map(([key, [source, target]]) => [key, { _key: key, source, target }]));
const lists = (sets) => Object.fromEntries(Object.entries(sets).filter(([, keys]) => keys.size).map(([name, keys]) => [name, [...keys]]));
const highlighted = (sources) => {
  const found = highlightsOf(sources, { nodes, edges });
  return { nodes: lists(found.nodes), edges: lists(found.edges) };
};

test("what runs and what does not run are told apart, with the edges that lead there", () => {
  const [runs, stops] = [["refund", "warn", "log"], ["ship"]];
  assert.deepEqual(highlighted({ nodes: ["charge", ...runs, ...stops], behind: [...runs, ...stops], runs, stops }), {
    nodes: { lit: ["charge", "refund", "warn", "log", "ship"], runs, stops, asked: ["charge"], dimmed: ["sort"] },
    edges: { runs: ["failed", "warned", "noted"], stops: ["paid", "sent"], dimmed: ["sorted"] },
  });
});

test("a node that runs in one case and not in another is marked as neither", () => {
  const found = highlighted({ nodes: ["charge"], behind: ["log", "ship"], runs: ["log"], stops: ["log", "ship"] }).nodes;
  assert.deepEqual([found.runs, found.stops, found.lit], [undefined, ["ship"], ["charge", "log", "ship"]]);
});

test("keys that are not in the graph are left out", () => {
  assert.deepEqual(highlighted({ nodes: ["gone"], behind: ["gone"], runs: ["gone"], stops: ["__proto__"] }), { nodes: {}, edges: {} });
});

test("an answer without outcomes dims the rest only where it has a path or what lies behind a node", () => {
  assert.deepEqual(highlighted({ nodes: ["ship"] }), { nodes: { lit: ["ship"] }, edges: {} });
  const path = highlighted({ nodes: [], path: ["charge", "ship"] });
  assert.deepEqual([path.edges.path, path.nodes.dimmed.length, path.nodes.asked], [["paid"], 4, undefined]);
});

// Machado, Oliveira, Fernandes 2009: how colours are seen without one kind of cone. Units: linear RGB.
const SEEN = {
  all: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};
const XYZ = [[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0178, 0.1095, 0.8728]]; // white is 1, 1, 1
const times = (matrix, vector) => matrix.map((row) => row.reduce((sum, value, i) => sum + value * vector[i], 0));
const linear = (color) => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16) / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
const light = (color) => times(XYZ, linear(color))[1];
const contrast = (...pair) => pair.map(light).sort((a, b) => b - a).map((value) => value + 0.05).reduce((more, less) => more / less);

function lab(color, matrix) {
  const [x, y, z] = times(XYZ, times(matrix, linear(color)).map((value) => Math.min(1, Math.max(0, value)))).map(Math.cbrt);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

test("the two colours are told apart with every kind of colour vision, and read on both grounds", () => {
  const css = readFileSync(new URL("../../server/web/css/first.css", import.meta.url), "utf8");
  const themes = (name) => new RegExp(`--${name}: light-dark\\((#\\w{6}), (#\\w{6})\\)`).exec(css).slice(1);
  const [runs, stops, ground, surface] = ["runs", "stops", "bg", "surface"].map(themes);
  for (const theme of [0, 1]) {
    for (const [name, matrix] of Object.entries(SEEN)) {
      const [a, b] = [runs, stops].map((color) => lab(color[theme], matrix));
      assert.ok(Math.hypot(...a.map((value, i) => value - b[i])) > 60, `${name} in theme ${theme}`); // 2.3 can just be noticed
    }
    for (const color of [runs, stops]) for (const under of [ground, surface]) assert.ok(contrast(color[theme], under[theme]) >= 4.5, color[theme]);
  }
});
