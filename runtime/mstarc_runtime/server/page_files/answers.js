/* Questions and their answers, one below the other, as they come. */

import { bytesOf, npy, numbersOf, samplesOf, save } from "./bytes.js";
import { preview } from "./composer.js";
import { make, seconds, tell } from "./make.js";
import { Sound } from "./sound.js";

// The output that OpenAI's routes take for what was heard, too.
const HEARD = "transcript";
const spaced = (name) => name.replaceAll("_", " ");

/* One question with its answer. */
export class Turn {
  constructor(log, shown, outputs) {
    this.outputs = new Map(outputs.map((output) => [output.name, output]));
    this.texts = new Map();
    this.sounds = new Map();
    this.began = performance.now();
    this.log = log;
    this.wait = make("span", { className: "meta dots" }, "working ");
    this.answer = make("div", { className: "bubble answered", "aria-busy": "true" }, this.wait);
    this.meta = make("span", { className: "meta" });
    this.question = make("div", { className: "bubble asked" }, ...shown.map(asked));
    this.element = make("article", { className: "turn", "aria-label": "a question and its answer" },
      this.question, this.answer);
    log.append(this.element);
    this.show();
  }

  /* An event of the server. */
  take(event) {
    if (!event.output) return;
    this.first ??= (performance.now() - this.began) / 1000;
    if (event.output !== HEARD) this.wait.remove();
    if (event.text !== undefined) this.text(event);
    else if (event.audio !== undefined) this.sound(event);
    else this.value(event);
    this.show();
  }

  text({ output, text }) {
    let place = this.texts.get(output);
    if (!place) {
      place = make("p", { className: "text" });
      this.texts.set(output, place);
      // What was heard is about the question.
      if (output === HEARD) this.question.append(make("div", {}, labelled("heard"), place));
      else this.answer.append(make("div", {}, this.isAlone(output) ? null : labelled(output), place));
    }
    place.append(text);
  }

  /* Whether no other text of the answer needs to be told from it. */
  isAlone(name) {
    const others = [...this.outputs.values()].filter((each) => each.type === "text" && each.name !== HEARD);
    return others.length < 2 && others[0]?.name === name;
  }

  sound({ output, audio, rate }) {
    let sound = this.sounds.get(output);
    if (!sound) {
      // Two sounds at once would be heard by nobody.
      sound = new Sound(output, { isHeard: this.sounds.size === 0 });
      this.sounds.set(output, sound);
      this.answer.append(sound.element);
    }
    sound.add(samplesOf(audio), rate);
  }

  value({ output, value }) {
    this.answer.append(make("div", { className: "sound" }, labelled(output), ...shownValue(output, value)));
  }

  /* The whole answer has come; `number` is the server's. */
  end(number) {
    for (const sound of this.sounds.values()) sound.end();
    this.wait.remove();
    const all = seconds((performance.now() - this.began) / 1000);
    const first = this.first === undefined ? "" : `first after ${seconds(this.first)}, `;
    this.meta.textContent = `${number === null ? "" : `No. ${number}: `}${first}all after ${all}`;
    this.answer.append(this.meta);
    this.answer.removeAttribute("aria-busy");
    this.show();
    const said = this.reply;
    tell(said ? `Answer: ${said}` : "The answer is there");
  }

  fail(message, code) {
    for (const sound of this.sounds.values()) sound.end();
    this.wait.remove();
    this.answer.classList.add("failed");
    this.answer.removeAttribute("aria-busy");
    const known = /^MS\d+$/.test(code) ? ` (${code})` : "";
    this.answer.append(make("p", { className: "text", role: "alert" }, `${message}${known}`));
    this.show();
  }

  hush() {
    for (const sound of this.sounds.values()) if (sound.isPlaying) sound.hush();
  }

  /* The text of the answer that is the reply: not what was heard. */
  get reply() {
    const name = [...this.texts.keys()].find((output) => output !== HEARD);
    return name === undefined ? "" : this.texts.get(name).textContent;
  }

  show() {
    this.log.scrollTop = this.log.scrollHeight;
  }
}

function labelled(name) {
  return make("span", { className: "label" }, spaced(name));
}

function asked(part) {
  if (part.kind === "text") return make("p", { className: "text" }, part.text);
  return preview(part);
}

function shownValue(name, value) {
  if (value.format === "png") {
    const blob = new Blob([bytesOf(value.data)], { type: "image/png" });
    const picture = make("img", { src: URL.createObjectURL(blob), alt: `${spaced(name)}, made by the model` });
    return [picture, make("div", { className: "row" }, keep(() => save(blob, `${name}.png`), "Save"))];
  }
  const facts = make("span", { className: "meta" }, `${value.dtype}[${value.shape.join(", ")}]`);
  const drawn = picturesOf(value) ?? heatOf(name, value);
  const row = make("div", { className: "row" }, keep(() => save(npy(value), `${name}.npy`), "Save as .npy"), facts);
  return drawn ? [drawn, row] : [row];
}

function keep(onclick, text) {
  return make("button", { type: "button", className: "small", onclick }, text);
}

/* u8[T, 3, H, W] as a film that goes round. */
function picturesOf({ dtype, shape, data }) {
  if (dtype !== "uint8" || shape.length !== 4 || shape[1] !== 3) return null;
  const [count, , height, width] = shape;
  const bytes = bytesOf(data);
  const canvas = make("canvas", { className: "picture", width, height, role: "img",
    "aria-label": `a film of ${count} pictures` });
  const context = canvas.getContext("2d");
  const picture = context.createImageData(width, height);
  const size = width * height;
  let at = 0;
  const draw = () => {
    const from = at * 3 * size;
    for (let pixel = 0; pixel < size; pixel += 1) {
      for (let c = 0; c < 3; c += 1) picture.data[4 * pixel + c] = bytes[from + c * size + pixel];
      picture.data[4 * pixel + 3] = 255;
    }
    context.putImageData(picture, 0, 0);
    at = (at + 1) % count;
    if (canvas.isConnected || at === 1) setTimeout(draw, 125);
  };
  draw();
  return canvas;
}

/* Numbers as a picture: rows of the last dim, dark to bright. */
function heatOf(name, value) {
  const numbers = numbersOf(value);
  if (!numbers || numbers.length < 2) {
    return numbers ? make("p", { className: "text" }, [...numbers].join(", ")) : null;
  }
  const width = value.shape.at(-1) || 1;
  const [columns, rows] = [Math.min(width, 512), Math.min(Math.ceil(numbers.length / width), 256)];
  let [least, most] = [Infinity, -Infinity];
  for (const number of numbers) {
    if (number < least) least = number;
    if (number > most) most = number;
  }
  const canvas = make("canvas", { className: "heat", width: columns, height: rows, role: "img",
    "aria-label": `${spaced(name)}: ${numbers.length} numbers from ${short(least)} to ${short(most)}` });
  const context = canvas.getContext("2d");
  const picture = context.createImageData(columns, rows);
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const share = (numbers[row * width + column] - least) / (most - least || 1);
      picture.data.set([60 + 195 * share, 40 + 170 * share * share, 150 - 60 * share, 255],
        4 * (row * columns + column));
    }
  }
  context.putImageData(picture, 0, 0);
  const range = make("span", { className: "meta" }, `${short(least)} to ${short(most)}`);
  return make("div", {}, canvas, range);
}

const short = (number) => Number(number.toPrecision(4)).toString();
