// Lines nodes up: at a side, at their middles, or with equal gaps. Pure.

import { boundsOf, boxOf } from "./model.js";

export const WAYS = ["left", "centre", "right", "top", "middle", "bottom", "row", "column"];

// Returns the moves [{key, x, y}] that line nodes up in one of WAYS.
export function aligned(nodes, way) {
  const all = boundsOf(nodes);
  if (way === "row" || way === "column") return spread(nodes, way === "row" ? ["x", "w"] : ["y", "h"], all);
  const at = {
    left: () => ({ x: all.x1 }), right: ({ w }) => ({ x: all.x2 - w }), centre: ({ w }) => ({ x: Math.round((all.x1 + all.x2 - w) / 2) }),
    top: () => ({ y: all.y1 }), bottom: ({ h }) => ({ y: all.y2 - h }), middle: ({ h }) => ({ y: Math.round((all.y1 + all.y2 - h) / 2) }),
  }[way];
  return nodes.map((node) => ({ key: node._key, x: node.posX ?? 0, y: node.posY ?? 0, ...at(boxOf(node)) }));
}

// The first and the last stay where they are; nodes that overlap keep no gap, and the last then moves.
function spread(nodes, [along, length], all) {
  const boxes = nodes.map((node) => ({ key: node._key, box: boxOf(node) })).toSorted((one, other) => one.box[along] - other.box[along]);
  const taken = boxes.reduce((sum, { box }) => sum + box[length], 0);
  const gap = Math.max(0, (along === "x" ? all.x2 - all.x1 : all.y2 - all.y1) - taken) / Math.max(1, boxes.length - 1);
  let next = boxes[0].box[along];
  return boxes.map(({ key, box }) => {
    const move = { key, x: box.x, y: box.y, [along]: Math.round(next) };
    next += box[length] + gap;
    return move;
  });
}
