// News of runs: calls `look` when something of them may be another. The one place that knows how such news come.
//
// What people propose and decide is told by the server; what a run does by itself is asked for while one moves.

const MOVING_MS = 5000;
const RESTING_MS = 60_000; // a schedule may have begun a run meanwhile
const SOON_MS = 150; // news that come together are looked at together

// `isMoving()`: whether a run that is shown changes by itself. Returns the way to stop.
export function watchRuns(app, { isMoving, look }) {
  let last = Date.now();
  let timer = 0;
  const now = () => {
    last = Date.now();
    if (app.socket.isOpen && document.visibilityState !== "hidden") look();
  };
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(now, SOON_MS);
  };
  const beat = setInterval(() => Date.now() - last >= (isMoving() ? MOVING_MS : RESTING_MS) && now(), 1000);
  const stops = ["ai:review", "open"].map((type) => app.socket.on(type, soon));
  document.addEventListener("visibilitychange", soon);
  return () => {
    clearInterval(beat);
    clearTimeout(timer);
    stops.forEach((stop) => stop());
    document.removeEventListener("visibilitychange", soon);
  };
}
