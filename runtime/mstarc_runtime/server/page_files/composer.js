/* The question: a control for each input of the model, by its type. */

import { base64Of } from "./bytes.js";
import { colour, make, seconds, sharp, tell } from "./make.js";
import { audio, Recorder } from "./sound.js";

const ACCEPT = { image: "image/*", video: "video/*", audio: "audio/*" };
const MICROPHONE =
  '<svg viewBox="0 0 24 24" aria-hidden="true"><path d="M12 15a4 4 0 0 0 4-4V6a4 4 0 0 0-8 0v5a4 4 0 0 0 4 4zm7-4h-2a5 5 0 0 1-10 0H5a7 7 0 0 0 6 6.9V21h2v-3.1A7 7 0 0 0 19 11z"/></svg>';

const kindOf = (type) => type.split("(")[0];
const spaced = (name) => name.replaceAll("_", " ");

export class Composer {
  /* `onready`: a recording has ended and nothing else is needed. */
  constructor(place, inputs, onready) {
    this.fields = inputs.map((input) => fieldOf(input, () => this.isWhole && onready()));
    place.replaceChildren(...this.fields.map((field) => field.element));
    this.parts = this.fields.find((field) => field instanceof Parts);
  }

  /* Whether all that must be given is there. */
  get isWhole() {
    return this.fields.every((field) => field.optional || !field.isEmpty);
  }

  get missing() {
    return this.fields.filter((field) => !field.optional && field.isEmpty).map((f) => f.name);
  }

  /* {input: value as the server takes it}, and what the page shows of it. */
  async read() {
    const given = {};
    const shown = [];
    for (const field of this.fields) {
      if (field.isEmpty) continue;
      given[field.name] = await field.read();
      shown.push(...field.shown());
    }
    return { given, shown };
  }

  clear() {
    for (const field of this.fields) field.clear();
  }

  focus() {
    this.fields[0]?.focus();
  }

  async finishRecording() {
    for (const field of this.fields) if (field.recording) await field.recording.stop();
  }
}

function fieldOf(input, onrecorded) {
  if (input.type.startsWith("[")) return new Parts(input, onrecorded);
  const kind = kindOf(input.type);
  if (kind === "text") return new Text(input);
  if (ACCEPT[kind]) return new Files(input, [kind], onrecorded);
  return new Numbers(input);
}

/* What all have: a name, and a label that says whether it is needed. */
class Field {
  constructor(input) {
    this.name = input.name;
    this.optional = input.optional;
    this.id = `input-${input.name}`;
    this.element = make("div", { className: "field" });
  }

  label(text, inside = {}) {
    const need = this.optional ? make("span", { className: "need" }, " (optional)") : null;
    return make("label", { className: "label", for: this.id, ...inside }, text, need);
  }

  shown() {
    return [];
  }
}

class Text extends Field {
  constructor(input) {
    super(input);
    this.area = textArea(this.id);
    this.element.append(this.label(spaced(this.name)), this.area);
  }

  get isEmpty() {
    return !this.area.value.trim();
  }

  async read() {
    return this.area.value;
  }

  shown() {
    return [{ kind: "text", text: this.area.value }];
  }

  clear() {
    this.area.value = "";
  }

  focus() {
    this.area.focus();
  }
}

class Numbers extends Text {
  constructor(input) {
    super(input);
    this.area.placeholder = "[[0.1, 0.2], [0.3, 0.4]]";
    this.area.spellcheck = false;
    this.area.setAttribute("aria-label", `${spaced(this.name)}: lists of numbers`);
    this.area.classList.add("numbers");
  }

  async read() {
    try {
      return JSON.parse(this.area.value);
    } catch {
      throw new Error(`${spaced(this.name)} is not lists of numbers, as [[0.1, 0.2], [0.3, 0.4]]`);
    }
  }

  /* Numbers are given again and again, with small changes. */
  clear() {}

  shown() {
    const text = this.area.value;
    return [{ kind: "text", text: `${this.name}: ${text.slice(0, 80)}${text.length > 80 ? "…" : ""}` }];
  }
}

/* Files of some kinds: chosen, dropped, pasted or recorded. */
class Files extends Field {
  constructor(input, kinds, onrecorded, most = 1) {
    super(input);
    this.kinds = kinds;
    this.most = most;
    this.files = [];
    this.attached = make("div", { className: "attached" });
    this.picker = make("input", { id: this.id, type: "file", hidden: true, multiple: most > 1,
      accept: kinds.map((kind) => ACCEPT[kind]).join(",") });
    this.picker.addEventListener("change", () => {
      this.take(this.picker.files);
      this.picker.value = "";
    });
    const words = kinds.map((kind) => (kind === "audio" ? "a sound" : kind === "image" ? "an image" : "a video"));
    this.choose = make("button", { type: "button", className: "word", onclick: () => this.picker.click(),
      "aria-label": `Choose ${words.join(" or ")} for ${spaced(this.name)}` }, "Choose a file");
    this.zone = make("div", { className: "drop", role: "group", "aria-label": spaced(this.name) });
    if (kinds.includes("audio")) {
      this.recording = new Recording((file) => {
        this.take([file]);
        onrecorded();
      });
      this.zone.append(this.recording.button, this.recording.level);
    }
    this.zone.append(this.choose, make("span", {}, `or drop ${words.join(" or ")} here`), this.picker);
    this.drops(this.zone);
    const label = make("span", { className: "label" }, spaced(this.name), this.optional ? " (optional)" : "");
    this.element.append(label, this.zone, this.attached);
  }

  drops(zone) {
    zone.addEventListener("dragover", (event) => {
      event.preventDefault();
      zone.classList.add("over");
    });
    zone.addEventListener("dragleave", () => zone.classList.remove("over"));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      zone.classList.remove("over");
      this.take(event.dataTransfer.files);
    });
  }

  take(files) {
    for (const file of files) {
      const kind = file.type.split("/")[0];
      if (!this.kinds.includes(kind)) {
        tell(`${file.name || "this file"} is not ${this.kinds.join(" or ")}`);
        continue;
      }
      if (this.files.length === this.most) this.files.shift();
      this.files.push({ kind, file, name: file.name, url: URL.createObjectURL(file) });
      tell(`${file.name || kind} is attached`);
    }
    this.draw();
  }

  draw() {
    this.attached.replaceChildren(...this.files.map((entry) => {
      const remove = make("button", { type: "button", className: "small quiet", textContent: "✕",
        "aria-label": `Remove ${entry.file.name}`,
        onclick: () => {
          this.files = this.files.filter((other) => other !== entry);
          this.draw();
        } });
      const small = preview(entry);
      if (entry.kind === "video") small.controls = false;
      return make("span", {}, small, entry.file.name || entry.kind, remove);
    }));
  }

  get isEmpty() {
    return !this.files.length;
  }

  async read() {
    return base64Of(this.files[0].file);
  }

  shown() {
    return this.files.map(({ kind, url, name }) => ({ kind, url, name }));
  }

  /* A recording is asked once; a picture or a film may be asked about again. */
  clear() {
    if (!this.kinds.includes("audio") && this.most === 1) return;
    this.files = [];
    this.draw();
  }

  focus() {
    (this.recording?.button ?? this.choose).focus();
  }
}

/* Texts and files in one input, with the turns before. */
class Parts extends Files {
  constructor(input, onrecorded) {
    const kinds = input.type.slice(1, -1).split(" | ").map(kindOf);
    super({ ...input, name: input.name }, kinds.filter((kind) => kind !== "text"), onrecorded, 8);
    this.takesText = kinds.includes("text");
    this.before = [];
    if (!this.takesText) return;
    this.area = textArea(`${this.id}-text`);
    this.element.firstChild.remove();
    this.element.prepend(make("label", { className: "label", for: this.area.id }, "your message"), this.area);
    this.area.addEventListener("paste", (event) => {
      if (event.clipboardData.files.length) this.take(event.clipboardData.files);
    });
  }

  get isEmpty() {
    return !this.files.length && !this.area?.value.trim();
  }

  async read() {
    const parts = [];
    for (const { kind, file } of this.files) parts.push({ [kind]: await base64Of(file), role: "user" });
    if (this.area?.value.trim()) parts.push({ text: this.area.value, role: "user" });
    this.asked = parts;
    return [...this.before, ...parts];
  }

  /* The turn that was read last, and its answer, stand before what is asked next. */
  remember(reply) {
    if (!this.takesText || !reply) return;
    this.before.push(...this.asked, { text: reply, role: "assistant" });
  }

  forget() {
    this.before = [];
  }

  shown() {
    const text = this.area?.value.trim();
    return [...super.shown(), ...(text ? [{ kind: "text", text }] : [])];
  }

  clear() {
    super.clear();
    if (this.area) this.area.value = "";
  }

  focus() {
    (this.area ?? this.choose).focus();
  }
}

/* A button that records while it is pressed in. */
class Recording {
  constructor(onfile) {
    this.onfile = onfile;
    this.level = make("canvas", { className: "level", hidden: true, "aria-hidden": "true" });
    this.name = make("span", {}, "Record");
    const why = Recorder.why();
    this.button = make("button", { type: "button", className: "record", "aria-pressed": "false",
      disabled: Boolean(why), title: why, onclick: () => this.toggle() });
    this.button.innerHTML = MICROPHONE;
    this.button.append(this.name);
  }

  async toggle() {
    await (this.recorder ? this.stop() : this.start());
  }

  async start() {
    const recorder = new Recorder();
    this.levels = [];
    audio();
    try {
      await recorder.start((loud) => {
        this.levels.push(loud);
        this.draw();
      });
    } catch (error) {
      this.name.textContent = "Record";
      tell(`The microphone can't be used: ${error.message}`);
      document.getElementById("problem").textContent =
        `The microphone can't be used: ${error.message}`;
      return;
    }
    this.recorder = recorder;
    this.began = performance.now();
    this.button.firstChild.replaceWith(make("span", { className: "dot" }));
    this.button.setAttribute("aria-pressed", "true");
    this.level.hidden = false;
    tell("Recording");
  }

  async stop() {
    if (!this.recorder) return;
    const blob = this.recorder.stop();
    this.recorder = null;
    this.button.setAttribute("aria-pressed", "false");
    this.button.innerHTML = MICROPHONE;
    this.button.append(this.name);
    this.name.textContent = "Record";
    this.level.hidden = true;
    this.onfile(new File([blob], "recording.wav", { type: "audio/wav" }));
  }

  draw() {
    if (!this.recorder) return;
    this.name.textContent = `Stop, ${seconds((performance.now() - this.began) / 1000)}`;
    const { context, width, height } = sharp(this.level);
    context.fillStyle = colour("accent");
    const groups = Math.floor(width / 4);
    for (let index = 0; index < groups; index += 1) {
      const from = this.levels.length - (groups - index) * 6;
      const loud = Math.max(0, ...this.levels.slice(Math.max(0, from), Math.max(0, from + 6)));
      const tall = Math.max(2, Math.min(1, loud * 1.6) * height);
      context.fillRect(index * 4, (height - tall) / 2, 3, tall);
    }
  }
}

function textArea(id) {
  const area = make("textarea", { id, rows: 2 });
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      area.form.requestSubmit();
    }
  });
  return area;
}

export function preview({ kind, url, name }) {
  if (kind === "image") return make("img", { src: url, alt: name || "your image" });
  if (kind === "video") return make("video", { src: url, controls: true, muted: true });
  return make("audio", { src: url, controls: true });
}
