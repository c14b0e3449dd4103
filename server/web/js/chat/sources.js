// Lights on the canvas what an answer rests on: as the server says, else the nodes that its text names.

// `sources`: {nodes, path, behind, runs, stops} of keys, or nothing where an answer was stored.
export function showSources(app, turn, sources) {
  const named = (selector, read) => [...new Set([...turn.body.querySelectorAll(selector)].flatMap(read))];
  const marked = (of) => named(`.chip[data-highlight]${of}`, (chip) => chip.dataset.highlight.split(","));
  const found = sources ?? {
    nodes: named(".chip[data-node]", (chip) => [chip.dataset.node]),
    behind: marked(""),
    runs: marked('[data-outcome="runs"]'),
    stops: marked('[data-outcome="stops"]'),
  };
  app.canvas.showSources(found);
}
