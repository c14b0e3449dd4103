// The nodes of the sheet as they are read: in columns of the flow; notes and frames first, they lie behind. What was
// in order stays so: after a small change sorting has little to do.

export function createOrder(state) {
  let sorted = []; // the nodes, sheet and types that are in order
  let ranks = new WeakMap(); // node -> its column, notes before all

  function rankOf(node) {
    if (!ranks.has(node)) {
      const isBack = node.type === "note" || state().nodeTypes.get(node.type)?.category === "note";
      ranks.set(node, Math.round((node.posX ?? 0) / 80) - (isBack ? 1e9 : 0));
    }
    return ranks.get(node);
  }

  // Returns the nodes; `order` is what was returned before.
  return function ordered(order) {
    const { nodes: all, sheet, nodeTypes } = state();
    const seen = [all, sheet, nodeTypes];
    if (order.length && seen.every((one, i) => one === sorted[i])) return order;
    if (sheet !== sorted[1] || nodeTypes !== sorted[2]) ranks = new WeakMap();
    sorted = seen;
    const known = new Set(order.map((node) => node._key));
    const found = [...order.map((node) => all.get(node._key)), ...[...all.values()].filter((node) => !known.has(node._key))];
    return found.filter((node) => node && (node.sheet ?? "0") === sheet).sort((a, b) => rankOf(a) - rankOf(b) || (a.posY ?? 0) - (b.posY ?? 0) || (a._key < b._key ? -1 : 1));
  };
}
