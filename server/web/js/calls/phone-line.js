// The telephone line of a call from the browser: the messages of Media Streams over a WebSocket.

const FORMAT = { encoding: "audio/x-mulaw", sampleRate: 8000, channels: 1 };
const FRAME_MS = 20;

// Opens the line. `onSound(bytes)`, `onMark(name)` and `onClear()` are what comes, `onOpen()` and `onClose(code)` how it
// stands. Returns `sound(frame)`, `mark(name)` (it was played) and `hangUp()`.
export function openLine({ url, token, callSid }, { onOpen, onSound, onMark, onClear, onClose }) {
  const streamSid = `MZ${crypto.randomUUID().replaceAll("-", "")}`;
  const socket = new WebSocket(url);
  let number = 0;
  let chunk = 0;
  socket.onopen = () => {
    socket.send(JSON.stringify({ event: "connected", protocol: "Call", version: "1.0.0" }));
    send("start", { accountSid: "browser", streamSid, callSid, tracks: ["inbound"], customParameters: { token }, mediaFormat: FORMAT });
    onOpen();
  };
  socket.onmessage = ({ data }) => take(data);
  socket.onclose = ({ code }) => onClose(code);
  return { sound, mark: (name) => send("mark", { name }), hangUp };

  function send(event, body) {
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ event, sequenceNumber: String(++number), streamSid, [event]: body }));
  }

  function sound(frame) {
    if (socket.readyState !== WebSocket.OPEN) return;
    send("media", { track: "inbound", chunk: String(++chunk), timestamp: String((chunk - 1) * FRAME_MS), payload: btoa(String.fromCharCode(...frame)) });
  }

  function take(text) {
    const message = JSON.parse(text);
    if (message.event === "media") onSound(Uint8Array.from(atob(message.media.payload), (char) => char.charCodeAt(0)));
    else if (message.event === "mark") onMark(message.mark.name);
    else if (message.event === "clear") onClear();
  }

  function hangUp() {
    send("stop", { accountSid: "browser", callSid });
    socket.close(1000);
  }
}
