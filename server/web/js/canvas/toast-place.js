// Where news stand while a graph is open: clear of the overview, the tools, the sheets and the inspector.

const EDGE_PX = 12;
const LEAST_PX = 300; // width of news beside the overview; with less they stand above it

export function keepToastsClear({ stage, tools, sheets, minimap, inspector }) {
  const { style } = document.getElementById("toasts");
  const observer = new ResizeObserver(place);
  for (const part of [stage, tools, sheets, minimap, inspector]) observer.observe(part);

  function place() {
    if (!stage.clientWidth) return;
    const [all, bar, tabs, map, panel] = [stage, tools, sheets, minimap, inspector].map((part) => part.getBoundingClientRect());
    const left = all.left + EDGE_PX;
    const from = panel.width && map.width ? panel.right + EDGE_PX : left;
    const isOneRow = Math.abs(tabs.bottom - bar.bottom) < EDGE_PX;
    if (map.width && isOneRow && map.left - EDGE_PX - from >= LEAST_PX) return put(from, map.left - EDGE_PX, bar.top);
    const tops = [bar, tabs, map, ...(map.width ? [] : [panel])].filter(({ width }) => width).map(({ top }) => top);
    return put(left, all.right - EDGE_PX, Math.min(...tops));
  }

  // Set on the news alone: on the page, every part of it would be given its style again.
  function put(left, right, bottom) {
    const where = { left: `${left}px`, right: `${innerWidth - right}px`, bottom: `${innerHeight - bottom + EDGE_PX}px` };
    for (const [name, value] of Object.entries(where)) {
      if (style.getPropertyValue(`--toasts-${name}`) !== value) style.setProperty(`--toasts-${name}`, value);
    }
  }
}
