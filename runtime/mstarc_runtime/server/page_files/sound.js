/* A microphone → samples; samples that come piece by piece → what is heard, without a gap. */

import { save, wav } from "./bytes.js";
import { colour, make, seconds, sharp } from "./make.js";

let context = null;

/* The page's one audio context. First asked for when somebody clicks, as browsers want it. */
export function audio() {
  context ??= new AudioContext();
  if (context.state === "suspended") context.resume();
  return context;
}

/* Records until it is stopped. `onlevel` is told how loud it is, 0 … 1. */
export class Recorder {
  static why() {
    if (!window.isSecureContext) return "Browsers record only on pages of this machine or of https.";
    return navigator.mediaDevices?.getUserMedia ? "" : "This browser can't record.";
  }

  async start(onlevel) {
    const heard = await navigator.mediaDevices.getUserMedia({
      audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true },
    });
    const context = audio();
    await context.audioWorklet.addModule("page/recorder-worklet.js");
    this.stream = heard;
    this.pieces = [];
    this.source = context.createMediaStreamSource(heard);
    this.node = new AudioWorkletNode(context, "recorder", { numberOfOutputs: 0 });
    this.node.port.onmessage = ({ data }) => {
      this.pieces.push(data);
      onlevel(Math.max(...data.map(Math.abs)));
    };
    this.source.connect(this.node);
  }

  /* The recording as a WAV file. */
  stop() {
    this.source.disconnect();
    this.node.port.onmessage = null;
    this.stream.getTracks().forEach((track) => track.stop());
    return wav(this.pieces, audio().sampleRate);
  }
}

/* One sound of an answer: heard as it comes, drawn as it comes, kept to be heard again. */
export class Sound {
  constructor(name, { isHeard }) {
    this.name = name;
    this.isHeard = isHeard;
    this.pieces = [];
    this.playing = new Set();
    this.rate = 0;
    this.duration = 0;
    this.gaps = 0;
    this.until = 0;
    this.begun = 0;
    this.wave = make("canvas", { className: "wave", role: "img", "aria-label": `${name}: no sound yet` });
    this.again = make("button", { type: "button", className: "small", onclick: () => this.toggle() });
    this.keep = make("button", {
      type: "button", className: "small", textContent: "Save", hidden: true,
      onclick: () => save(this.file(), `${name}.wav`),
    });
    this.facts = make("span", { className: "meta" });
    this.element = make("div", { className: "sound" }, this.wave,
      make("div", { className: "row" }, this.again, this.keep, this.facts));
    this.draw();
  }

  /* More of it has come. */
  add(samples, rate) {
    this.rate = rate;
    this.pieces.push(samples);
    this.duration += samples.length / rate;
    if (this.isHeard) this.schedule(samples, this.pieces.length > 1);
    this.draw();
  }

  schedule(samples, follows) {
    if (!samples.length) return;
    const context = audio();
    const now = context.currentTime;
    if (this.until < now) {
      if (follows && this.isHeard) this.gaps += 1;
      // A moment for the sound card, so that the beginning is not lost.
      this.until = now + 0.06;
      if (!this.playing.size) this.begun = this.until - (follows ? this.played : 0);
    }
    const buffer = context.createBuffer(1, samples.length, this.rate);
    buffer.copyToChannel(samples, 0);
    const source = context.createBufferSource();
    source.buffer = buffer;
    source.connect(context.destination);
    source.start(this.until);
    this.until += buffer.duration;
    this.played = (this.played ?? 0) + buffer.duration;
    this.playing.add(source);
    source.onended = () => {
      this.playing.delete(source);
      this.draw();
    };
    this.move();
  }

  /* No more comes. */
  end() {
    this.isOver = true;
    this.keep.hidden = !this.pieces.length;
    this.draw();
  }

  get isPlaying() {
    return this.playing.size > 0;
  }

  toggle() {
    if (this.isPlaying) {
      this.hush();
      return;
    }
    this.isHeard = true;
    this.until = this.played = 0;
    for (const piece of this.pieces) this.schedule(piece, false);
    this.draw();
  }

  hush() {
    this.isHeard = false;
    for (const source of this.playing) source.stop();
    this.playing.clear();
    this.until = 0;
    this.draw();
  }

  file() {
    return wav(this.pieces, this.rate);
  }

  move() {
    if (this.moving) return;
    const step = () => {
      this.draw();
      this.moving = this.isPlaying ? requestAnimationFrame(step) : null;
    };
    this.moving = requestAnimationFrame(step);
  }

  draw() {
    const verb = this.isPlaying ? "Mute" : "Play";
    if (this.again.textContent !== verb) this.again.textContent = verb;
    this.again.disabled = !this.pieces.length;
    const gaps = this.gaps ? `, ${this.gaps} ${this.gaps === 1 ? "gap" : "gaps"}` : "";
    const facts = `${seconds(this.duration)} at ${this.rate / 1000} kHz${gaps}`;
    this.facts.textContent = this.rate ? facts : "";
    this.wave.setAttribute("aria-label", `${this.name}: ${seconds(this.duration)} of sound`);
    if (!this.wave.isConnected) return;
    const { context, width, height } = sharp(this.wave);
    const count = Math.floor(width / 3);
    // Until it is over, a sound is drawn as if it filled whole steps of four seconds.
    const span = this.isOver ? this.duration : Math.max(4, Math.ceil(this.duration / 4) * 4);
    const done = this.isPlaying ? (audio().currentTime - this.begun) / span : -1;
    const [quiet, loud] = [colour("soft"), colour("accent")];
    peaks(this.pieces, this.rate * span, count).forEach((peak, index) => {
      const tall = Math.max(1.5, peak * (height - 8));
      context.fillStyle = index / count <= done ? loud : quiet;
      context.fillRect(index * 3, (height - tall) / 2, 2, tall);
    });
  }
}

/* The loudest sample of each of `count` parts of `total` samples. */
function peaks(pieces, total, count) {
  const found = new Float32Array(count);
  let at = 0;
  for (const piece of pieces) {
    for (let index = 0; index < piece.length; index += 4) {
      const part = Math.floor(((at + index) / total) * count);
      const loud = Math.abs(piece[index]);
      if (part < count && loud > found[part]) found[part] = loud;
    }
    at += piece.length;
  }
  return found;
}
