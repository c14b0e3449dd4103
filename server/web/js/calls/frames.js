// Sound on its way: from one rate to another, into frames of 20 ms, and out of a queue that knows what was played. Pure.

import { decode } from "./mu-law.js";

export const FRAME_BYTES = 160;
const LOBES = 8; // of the filter, on each side
const STEPS = 240; // of the filter's table, for each sample
const MOST_BYTES = 4_800_000; // ten minutes are kept to be played, as a telephone network keeps them

// Returns push(samples), which gives the samples at another rate as far as they are known; what is too high for the
// lower rate is left out.
export function createResampler(from, to) {
  const cutoff = Math.min(1, to / from);
  const half = Math.ceil(LOBES / cutoff);
  const table = Float32Array.from({ length: half * STEPS + 1 }, (_, i) => weight(i / STEPS, cutoff, half));
  let kept = new Float32Array(2 * half);
  let at = half; // where the next sample is taken, in those that are kept
  return function push(samples) {
    const all = new Float32Array(kept.length + samples.length);
    all.set(kept);
    all.set(samples, kept.length);
    const made = [];
    for (; at + half < all.length; at += from / to) {
      let sum = 0;
      const last = Math.floor(at + half);
      for (let i = Math.ceil(at - half); i <= last; i += 1) sum += all[i] * table[Math.round(Math.abs(at - i) * STEPS)];
      made.push(sum);
    }
    const gone = Math.floor(at) - half;
    kept = all.slice(gone);
    at -= gone;
    return made;
  };
}

// A windowed sinc at a distance in samples.
function weight(distance, cutoff, half) {
  const x = Math.PI * cutoff * distance;
  return cutoff * (x ? Math.sin(x) / x : 1) * (0.5 + 0.5 * Math.cos((Math.PI * distance) / half));
}

// Returns add(byte), which calls onFrame with each frame that is full.
export function createFrames(onFrame) {
  let frame = new Uint8Array(FRAME_BYTES);
  let filled = 0;
  return function add(byte) {
    frame[filled++] = byte;
    if (filled < FRAME_BYTES) return;
    onFrame(frame);
    frame = new Uint8Array(FRAME_BYTES);
    filled = 0;
  };
}

// Returns what is to be played: sound and, between it, marks. `take(n)` gives n samples (silence where there are none)
// and the names of the marks whose sound has been played; `clear()` empties it and gives the marks that were left.
export function createPlayQueue() {
  let parts = []; // bytes, or {mark}
  let at = 0; // in the first part
  let bytes = 0;
  return { add, mark: (name) => parts.push({ mark: name }), take, clear, get isEmpty() { return !bytes; } };

  function add(sound) {
    if (!sound.length || bytes + sound.length > MOST_BYTES) return;
    parts.push(sound);
    bytes += sound.length;
  }

  function take(count) {
    const samples = new Float32Array(count);
    const marks = [];
    let taken = 0;
    let part = 0;
    for (; part < parts.length; part += 1) {
      const now = parts[part];
      if (now.mark !== undefined) {
        marks.push(now.mark);
        continue;
      }
      while (at < now.length && taken < count) samples[taken++] = decode(now[at++]) / 32_768;
      if (at < now.length) break;
      at = 0;
    }
    parts = parts.slice(part);
    bytes -= taken;
    return { samples, marks };
  }

  function clear() {
    const marks = parts.filter((part) => part.mark !== undefined).map((part) => part.mark);
    [parts, at, bytes] = [[], 0, 0];
    return marks;
  }
}

