// Microphone and loudspeaker of a call, beside the page's own thread: frames of μ-law out and in, at the sound card's rate.
//
// From the page: `{sound}` to be played, `{mark}` behind it, `{clear}`. To the page: `{frame}` each 20 ms, `{mark}` when
// the sound before it was played or thrown away, `{isSpeaking}` when the agent begins or ends.

import { createFrames, createPlayQueue, createResampler } from "./frames.js";
import { encode, RATE_HZ } from "./mu-law.js";

const PIECE = 32; // samples taken from the queue at once: 4 ms
const QUIET = new Float32Array(128);

class PhoneSound extends AudioWorkletProcessor { // the browser asks for a class
  constructor() {
    super();
    this.queue = createPlayQueue();
    this.toPhone = createResampler(sampleRate, RATE_HZ);
    this.toEar = createResampler(RATE_HZ, sampleRate);
    this.addByte = createFrames((frame) => this.port.postMessage({ frame }, [frame.buffer]));
    this.ready = [];
    this.isSpeaking = false;
    this.port.onmessage = ({ data }) => this.take(data);
  }

  take({ sound, mark, clear }) {
    if (sound) this.queue.add(sound);
    if (mark !== undefined) this.queue.mark(mark);
    if (clear) {
      this.played(this.queue.clear());
      this.ready = [];
    }
  }

  played(marks) {
    for (const mark of marks) this.port.postMessage({ mark });
  }

  process([input], [output]) {
    const heard = input[0] ?? QUIET; // a line is never without sound, also while the microphone is muted
    for (const sample of this.toPhone(heard)) this.addByte(encode(Math.round(Math.max(-1, Math.min(1, sample)) * 32_767)));
    const [left, ...others] = output;
    while (this.ready.length < left.length) {
      const { samples, marks } = this.queue.take(PIECE);
      this.ready.push(...this.toEar(samples));
      this.played(marks);
    }
    left.set(this.ready.splice(0, left.length));
    for (const other of others) other.set(left);
    if (this.isSpeaking === this.queue.isEmpty) {
      this.isSpeaking = !this.queue.isEmpty;
      this.port.postMessage({ isSpeaking: this.isSpeaking });
    }
    return true;
  }
}

registerProcessor("phone-sound", PhoneSound);
