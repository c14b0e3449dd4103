// Talking with an agent by voice from this browser: microphone, line, loudspeaker, and how it stands.

import { ApiError } from "../api.js";
import { createParts, h, named } from "../dom.js";
import { icon } from "../icons.js";
import { openLine } from "./phone-line.js";
import { askToTalk } from "./service.js";

const WORKLET = "/web/js/calls/sound-worklet.js";
const MICROPHONE = { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true };
const REFUSED = { NotAllowedError: "talk.refused", SecurityError: "talk.refused", NotFoundError: "talk.no_microphone", OverconstrainedError: "talk.no_microphone", NotReadableError: "talk.busy", AbortError: "talk.busy" };

// The agents that may be talked with: calls of the text engine need a telephone. Pure.
export const talkersOf = (agents) => (agents ?? []).filter(({ state, channels, engine }) => state === "running" && engine !== "text" && channels?.includes("voice"));

// Returns `{element, draw()}`. `onCall(callId)` is called when a call begins.
export function createTalk(app, { onCall }) {
  const { t, store } = app;
  const element = h("div.talk");
  const drawParts = createParts(element);
  const talk = { phase: "idle", agent: null, problem: "", call: null, chosen: "" }; // phase: idle | connecting | listening | speaking
  addEventListener("pagehide", () => talk.call?.line?.hangUp());
  return { element, draw };

  function draw() {
    const { agents, lang, me } = store.get();
    const may = talkersOf(agents);
    const isOff = me?.voice === false;
    drawParts(talk.phase !== "idle"
      ? [{ key: "call", facts: [lang, talk.phase, talk.agent], make: going }]
      : [{ key: "begin", facts: [lang, isOff, JSON.stringify(may.map(({ id, name }) => [id, name])), talk.problem], make: () => begin(may, isOff) }]);
  }

  function begin(may, isOff) {
    const select = h("select", { disabled: !may.length }, may.length ? may.map(({ id, name }) => h("option", { value: id, selected: id === talk.chosen }, name)) : h("option", t("talk.nobody_short")));
    const why = isOff ? t("talk.off") : may.length ? "" : t("talk.nobody");
    return h("div.talk-begin", h("div.talk-line", named(t("talk.with"), select),
      h("button.primary", { type: "button", disabled: Boolean(why), "aria-describedby": why ? "talk-why" : undefined, onclick: () => start(may.find((one) => one.id === select.value)) }, icon("microphone"), t("talk.begin"))),
      why ? h("p.note#talk-why", why) : "", talk.problem ? h("p.warn-text", { role: "alert" }, talk.problem) : "");
  }

  function going() {
    return h("div.talk-going", { class: `is-${talk.phase}` }, h("span.talk-dot", { "aria-hidden": "true" }),
      h("p", { role: "status" }, h("strong", talk.agent.name), ` · ${t(`talk.${talk.phase}`)}`),
      h("button.danger", { type: "button", onclick: () => stop() }, icon("stop"), t("talk.hang_up")));
  }

  function put(facts) {
    Object.assign(talk, facts);
    draw();
  }

  async function start(agent) {
    const call = { sound: new AudioContext(), microphone: null, line: null }; // made while the press of the button still allows it
    put({ phase: "connecting", agent, chosen: agent.id, problem: "", call });
    try {
      if (!navigator.mediaDevices) throw new DOMException("", "InsecureContext");
      call.microphone = await navigator.mediaDevices.getUserMedia({ audio: MICROPHONE });
      await call.sound.audioWorklet.addModule(WORKLET);
      const given = await askToTalk(app.api, agent.id);
      if (talk.call !== call) return release(call); // hung up meanwhile
      connect(call, given);
      onCall(given.callId);
    } catch (error) {
      if (!(error instanceof ApiError || error instanceof DOMException)) reportError(error);
      stop(call, error instanceof ApiError ? error.message : t(REFUSED[error.name] ?? (error.name === "InsecureContext" ? "talk.insecure" : "talk.failed")));
    }
    return undefined;
  }

  function connect(call, given) {
    const url = new URL(given.url, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const { port } = call.phone = new AudioWorkletNode(call.sound, "phone-sound", { numberOfInputs: 1, numberOfOutputs: 1, outputChannelCount: [2] });
    call.line = openLine({ ...given, url }, {
      onOpen: () => talk.call === call && put({ phase: "listening" }),
      onSound: (sound) => port.postMessage({ sound }, [sound.buffer]),
      onMark: (mark) => port.postMessage({ mark }),
      onClear: () => port.postMessage({ clear: true }),
      onClose: (code) => stop(call, code === 1000 ? "" : t("talk.lost")),
    });
    port.onmessage = ({ data: { frame, mark, isSpeaking } }) => {
      if (frame) call.line.sound(frame);
      if (mark !== undefined) call.line.mark(mark);
      if (isSpeaking !== undefined && talk.call === call) put({ phase: isSpeaking ? "speaking" : "listening" });
    };
    call.sound.createMediaStreamSource(call.microphone).connect(call.phone).connect(call.sound.destination);
    call.microphone.getTracks().forEach((track) => (track.onended = () => stop(call, t("talk.no_microphone"))));
  }

  function stop(call = talk.call, problem = "") {
    release(call);
    if (talk.call === call) put({ phase: "idle", call: null, problem });
  }

  function release({ line, microphone, sound, phone }) {
    line?.hangUp();
    microphone?.getTracks().forEach((track) => track.stop());
    if (phone) phone.port.onmessage = null;
    if (sound.state !== "closed") sound.close();
  }
}
