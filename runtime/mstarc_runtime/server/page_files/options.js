/* The options of a spec as controls: each of its type, in its range, with its default. */

import { make } from "./make.js";

export class Options {
  /* `schemas`: option → JSON Schema. `onchange` is told how many are not at their defaults. */
  constructor(list, schemas, onchange) {
    this.controls = Object.entries(schemas).map(([name, schema]) => control(name, schema));
    this.onchange = onchange;
    list.replaceChildren(...this.controls.map((each) => each.element));
    list.addEventListener("input", () => this.look());
    this.look();
  }

  get changed() {
    return this.controls.filter((each) => each.read() !== each.fallback);
  }

  /* Those that are not at their defaults, by name. */
  values() {
    return Object.fromEntries(this.changed.map((each) => [each.name, each.read()]));
  }

  reset() {
    for (const each of this.controls) each.write(each.fallback);
    this.look();
  }

  look() {
    const changed = this.changed;
    for (const each of this.controls) {
      each.element.classList.toggle("changed", changed.includes(each));
    }
    this.onchange(changed.length);
  }
}

function control(name, schema) {
  const id = `option-${name}`;
  const fallback = schema.default;
  const label = make("label", { className: "name", for: id }, name.replaceAll("_", " "));
  const parts = parts_of(id, schema);
  const element = make("div", { className: "option" }, label, ...parts.elements);
  parts.write(fallback);
  return { name, fallback, element, read: parts.read, write: parts.write };
}

function parts_of(id, schema) {
  if (schema.type === "boolean") {
    const box = make("input", { id, type: "checkbox" });
    return { elements: [box], read: () => box.checked, write: (to) => (box.checked = to) };
  }
  if (schema.enum) {
    const choice = make("select", { id });
    choice.append(...schema.enum.map((value) => make("option", { value: JSON.stringify(value) }, String(value))));
    return {
      elements: [choice],
      read: () => JSON.parse(choice.value),
      write: (to) => (choice.value = JSON.stringify(to)),
    };
  }
  if (schema.type === "string") {
    const field = make("input", { id, type: "text", spellcheck: false });
    return { elements: [field], read: () => field.value, write: (to) => (field.value = to) };
  }
  return number(id, schema);
}

function number(id, { type, minimum, maximum, default: fallback }) {
  const isWhole = type === "integer";
  const isBounded = minimum !== undefined && maximum !== undefined;
  const step = isWhole ? 1 : isBounded ? rounded((maximum - minimum) / 100) : "any";
  const field = make("input", { id, type: "number", min: minimum ?? "", max: maximum ?? "",
    step: isWhole ? 1 : "any", required: true });
  const elements = [make("div", { className: "pair" }, field)];
  const read = () => (field.value === "" ? fallback : Number(field.value));
  if (!isBounded) return { elements, read, write: (to) => (field.value = to) };
  const range = make("input", { type: "range", min: minimum, max: maximum, step, tabIndex: -1,
    "aria-hidden": "true" });
  range.addEventListener("input", () => (field.value = range.value));
  field.addEventListener("input", () => (range.value = field.value));
  elements[0].append(range);
  const said = make("span", { className: "range", id: `${id}-range` }, `${minimum} to ${maximum}`);
  field.setAttribute("aria-describedby", said.id);
  const write = (to) => (field.value = range.value = to);
  return { elements: [...elements, said], read, write };
}

function rounded(step) {
  return Number(step.toPrecision(1));
}
