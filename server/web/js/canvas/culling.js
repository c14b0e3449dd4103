// Keeps elements only for what is near what is seen: large sheets stay quick, and from far away are one picture.

const CULLED = 150; // sheets of more nodes show only what is near, and from far away one picture
const REST_MS = 140; // so long a zoom rests before single elements stand again in place of the picture
const MARGIN = 0.4; // of what is seen, kept around it
const NOWHERE = { x1: 1, y1: 1, x2: 0, y2: 0 };
const EVERYWHERE = { x1: -Infinity, y1: -Infinity, x2: Infinity, y2: Infinity };

export function createCulling({ stage, view, detail, nodes, edges, far }) {
  let count = 0; // of the sheet's nodes
  let kept = null; // the part of the sheet whose elements are in the page
  let resting = 0;
  let isResting = false; // the zoom rests

  // The sheet was drawn: what is kept is found out again, of all nodes or only of those that changed.
  function again(n, changed) {
    count = n;
    if (!changed) kept = null;
    else if (kept) give(kept, changed);
    cull();
  }

  function give(box, changed) {
    nodes.within(box, changed);
    edges.within(box, box === NOWHERE ? [] : nodes.near(), changed);
  }

  // Leaves out what is far from what is seen; a wide margin keeps most moves free of work.
  function cull() {
    const isFar = count > CULLED && (view.get().k < detail.least || (far.isOn && !isResting));
    if (isFar && view.get().k >= detail.least) restLater();
    if (isFar !== far.isOn) {
      far.show(isFar);
      stage.classList.toggle("painted", isFar);
      kept = null;
    }
    if (isFar) {
      if (kept !== NOWHERE) give(NOWHERE);
      kept = NOWHERE;
      return;
    }
    if (kept === EVERYWHERE) return;
    const now = view.seen();
    if (kept && now.x1 >= kept.x1 && now.y1 >= kept.y1 && now.x2 <= kept.x2 && now.y2 <= kept.y2 && now.x2 - now.x1 > (kept.x2 - kept.x1) / 5) return;
    const [w, high] = [now.x2 - now.x1, now.y2 - now.y1];
    kept = { x1: now.x1 - w * MARGIN, y1: now.y1 - high * MARGIN, x2: now.x2 + w * MARGIN, y2: now.y2 + high * MARGIN };
    if (count <= CULLED) kept = EVERYWHERE;
    give(kept);
  }

  function restLater() {
    clearTimeout(resting);
    resting = setTimeout(() => {
      isResting = true;
      cull();
      isResting = false;
    }, REST_MS);
  }

  return { again, cull };
}
