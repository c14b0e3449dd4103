// Lights on the canvas what an answer rests on: as the server says, else the nodes that its text names.

// `sources`: {nodes, path, behind} of keys, or nothing where an answer was stored.
export function showSources(app, turn, sources) {
  const named = (selector, read) => [...new Set([...turn.body.querySelectorAll(selector)].flatMap(read))];
  const found = sources ?? {
    nodes: named(".chip[data-node]", (chip) => [chip.dataset.node]),
    behind: named(".chip[data-highlight]", (chip) => chip.dataset.highlight.split(",")),
  };
  app.canvas.showSources(found);
}
