// News of runs: calls `look` when something of them may be another. The one place that knows how such news come.

const SOON_MS = 150; // news that come together are looked at together
const NEWS = ["ai:session_state", "ai:review", "open"];

// Lets the server tell where runs stand, with this connection and each one after it.
export function followRuns({ socket }) {
  socket.on("open", () => socket.request({ type: "ai:sessions" }).catch(() => {})); // asked again with the next connection
}

// Returns the way to stop.
export function watchRuns({ socket }, look) {
  let timer = 0;
  const now = () => socket.isOpen && document.visibilityState !== "hidden" && look();
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(now, SOON_MS);
  };
  const stops = NEWS.map((type) => socket.on(type, soon));
  document.addEventListener("visibilitychange", soon);
  return () => {
    clearTimeout(timer);
    stops.forEach((stop) => stop());
    document.removeEventListener("visibilitychange", soon);
  };
}
