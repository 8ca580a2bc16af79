"use strict";
/* Steps through the events of a request. What a step shows is folded from the events before it:
   nothing is kept but the number of the step. */
const model = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const engines = new Map(model.nodes.map((node) => [node.name, node.engine]));
let run = model.runs[0];
let at = 0;
let timer = null;

function make(tag, style, text) {
  const element = document.createElement(tag);
  if (style) element.className = style;
  if (text !== undefined) element.textContent = text;
  return element;
}

/* What holds after the events 0 … step. */
function fold(step) {
  const view = { machines: {}, streams: {}, outputs: {}, contexts: {}, values: {}, passes: {} };
  for (const channel of model.channels) {
    view.streams[channel.name] = { items: [], marks: [], chunk: null, read: 0, closed: false, fresh: 0 };
  }
  for (const field of model.fields) if (field.kind === "out") view.outputs[field.name] = [];
  run.events.slice(0, step + 1).forEach((event, index) => {
    const machine = (view.machines[event.machine] ??= { state: "", path: [], done: false });
    machine.state = event.state;
    machine.path = event.path;
    const stream = view.streams[event.name];
    switch (event.kind) {
      case "pass": {
        const key = event.path[event.path.length - 1];
        const passes = (view.passes[event.machine] ??= {});
        passes[key] = Number(event.text.split(" ")[1]);
        break;
      }
      case "state": view.passes[event.machine] = {}; break;
      case "send": for (const item of event.items) stream.items.push({ text: item, step: index }); break;
      case "mark": stream.marks.push([stream.items.length, event.items[0]]); break;
      case "read": case "pull":
        if (event.chunk) {
          stream.chunk = event.chunk;
          stream.step = index;
          stream.read = event.chunk.offset + event.chunk.context + event.chunk.fresh;
        }
        break;
      case "emit":
        for (const item of event.items) view.outputs[event.name].push({ text: item, step: index });
        break;
      case "close": stream.closed = true; break;
      case "done": machine.done = true; break;
    }
    for (const [name, rows] of event.rows) view.contexts[name] = { rows, step: index };
    const names = (view.values[event.machine] ??= { state: {}, walk: {}, name: "" });
    const runs = event.kind === "run";
    const inWalk = runs || isInRun(event);
    // What a walk sets is gone when it ends.
    if (runs || !inWalk) names.walk = {};
    if (runs) names.name = event.name;
    const place = inWalk ? names.walk : names.state;
    for (const [name, text] of event.values) place[name] = { text, step: index };
  });
  return view;
}

function isInRun(event) {
  return event.path.slice(0, -1).some((key) => runKeys.has(key));
}
const runKeys = new Set();
(function collect(blocks) {
  for (const block of blocks) {
    if (block.kind === "run") runKeys.add(block.key);
    collect(block.blocks);
  }
})(model.blocks);

/* The machines, drawn once. */
function drawBlock(block) {
  const leaf = block.blocks.length === 0;
  const item = make("li", `block ${leaf ? "leaf" : "group"} ${block.kind} ${block.engine ?? ""}`);
  item.dataset.key = block.key;
  const line = make("div", "line");
  line.append(make("span", "title", block.title));
  if (block.note) line.append(make("span", "note", block.note));
  for (const rank of block.ranks) line.append(make("span", "badge", `rank ${rank}`));
  if (block.region) line.append(make("span", "badge region", block.region));
  if (block.kind === "loop" || block.kind === "each") line.append(make("span", "count", ""));
  item.append(line);
  if (!leaf) item.append(drawBlocks(block.blocks));
  return item;
}

function drawBlocks(blocks) {
  const list = make("ul", "blocks");
  list.append(...blocks.map(drawBlock));
  return list;
}

function drawMachines() {
  const cards = model.blocks.map((machine) => {
    const card = make("article", "machine");
    card.dataset.machine = machine.name;
    const header = make("header");
    header.append(make("h2", "", machine.title));
    if (machine.note) header.append(make("span", "note", machine.note));
    header.append(make("span", "pill", ""));
    const states = make("div", "states");
    for (const state of machine.blocks) {
      const box = make("section", "state");
      box.dataset.state = state.name;
      box.setAttribute("aria-label", state.title);
      box.append(make("div", "line", state.title), drawBlocks(state.blocks));
      const next = state.next.map(([target, condition]) => `${target} ${condition}`.trim()).join(", ");
      box.append(make("p", "next", `next → ${next}`));
      states.append(box);
    }
    card.append(header, states);
    return card;
  });
  $("machines").replaceChildren(...cards);
  // A large model shows in full only where it is.
  $("machines").classList.toggle("large", document.querySelectorAll("li.block").length > 40);
}

function showMachines(view, event) {
  for (const card of document.querySelectorAll(".machine")) {
    const name = card.dataset.machine;
    const machine = view.machines[name];
    const acts = event.machine === name;
    const off = run.off.includes(name);
    card.classList.toggle("off", off);
    const pill = card.querySelector(".pill");
    const waits = event.waiting.includes(name);
    const [style, text] = off ? ["", "not in this request"]
      : machine?.done ? ["done", "done"]
      : acts ? ["acts", "acts now"]
      : waits ? ["waits", `waits${waitsFor(name)}`]
      : machine ? ["", "goes on"] : ["", "not begun"];
    pill.className = `pill ${style}`;
    pill.textContent = text;
    for (const box of card.querySelectorAll(".state")) {
      const here = machine && !machine.done && machine.state === box.dataset.state;
      box.classList.toggle("here", Boolean(here));
      const path = here ? machine.path : [];
      const passes = view.passes[name] ?? {};
      for (const item of box.querySelectorAll("li.block")) {
        const key = item.dataset.key;
        const last = path[path.length - 1] === key;
        item.classList.toggle("at", last && acts);
        item.classList.toggle("was", last && !acts);
        item.classList.toggle("around", !last && path.includes(key));
        if (last && acts) item.setAttribute("aria-current", "step");
        else item.removeAttribute("aria-current");
        const count = item.querySelector(":scope > .line > .count");
        if (count) {
          const passed = here && passes[key] ? `pass ${passes[key]}` : "";
          count.textContent = passed;
          count.hidden = !passed;
        }
      }
    }
  }
}

function waitsFor(machine) {
  const read = model.channels.filter((c) => c.consumer === machine).map((c) => c.name);
  return read.length === 1 ? ` for ${read[0]}` : "";
}

function showStreams(view, step) {
  const cards = model.channels.map((channel) => {
    const stream = view.streams[channel.name];
    const card = make("div", "card");
    const head = make("div", "stream-head");
    head.append(make("b", "mono", channel.name),
      make("span", "ends", `${channel.producer} → ${channel.consumer} · ${channel.item}`));
    if (stream.closed) head.append(make("span", "pill", "closed"));
    card.append(head);
    const rest = channel.rest ? ` · ${channel.rest}` : "";
    card.append(make("p", "policy", `${channel.policy}${rest}`));
    const items = make("div", "items");
    const chunk = stream.chunk;
    const end = chunk ? chunk.offset + chunk.context + chunk.fresh : 0;
    stream.items.forEach((item, index) => {
      for (const [place, mark] of stream.marks) {
        if (place === index) items.append(make("span", "mark-sign", `┊ ${mark}`));
      }
      let style = index < stream.read ? "read" : "unread";
      if (chunk && index >= chunk.offset && index < end) {
        style = index < chunk.offset + chunk.context ? "context" : "fresh";
      }
      const cell = make("span", `cell ${style}${item.step === step ? " new" : ""}`,
        item.text.length > 6 ? `#${index}` : item.text);
      cell.title = `item ${index}: ${item.text}, ${style === "unread" ? "not read yet" : style}`;
      items.append(cell);
    });
    for (let index = 0; chunk && index < (chunk.padding ?? 0); index += 1) {
      items.append(make("span", "cell pad", "pad"));
    }
    for (const [place, mark] of stream.marks) {
      if (place === stream.items.length) items.append(make("span", "mark-sign", `┊ ${mark}`));
    }
    if (!stream.items.length) items.append(make("span", "empty", "no items yet"));
    card.append(items);
    const tally = make("p", "tally");
    const facts = [["sent", stream.items.length], ["read", stream.read],
      ["waiting", stream.items.length - stream.read]];
    for (const [word, number] of facts) {
      const fact = make("span", "", `${word} `);
      fact.append(make("b", "", number));
      tally.append(fact);
    }
    if (chunk) {
      const fresh = make("span", "");
      fresh.append(make("i", "key fresh"), `last chunk: ${chunk.fresh} new`);
      tally.append(fresh);
      if (chunk.context) {
        const context = make("span", "");
        context.append(make("i", "key context"), `${chunk.context} again`);
        tally.append(context);
      }
    }
    card.append(tally);
    return card;
  });
  $("streams").replaceChildren(...cards);
}

function showOutputs(view, step) {
  const card = make("div", "card");
  card.append(make("h2", "", "What the client got"));
  for (const [name, items] of Object.entries(view.outputs)) {
    const row = make("div", "output");
    row.append(make("span", "mono", name));
    const cells = make("span", "cells");
    for (const item of items) {
      cells.append(make("span", `cell${item.step === step ? " new" : ""}`, item.text));
    }
    if (!items.length) cells.append(make("span", "empty", "nothing yet"));
    row.append(cells);
    card.append(row);
  }
  $("outputs").replaceChildren(card);
}

let mostRows = 1;
function showContexts(view) {
  const names = Object.keys(view.contexts);
  $("contexts").hidden = names.length === 0;
  const card = make("div", "card");
  card.append(make("h2", "", "KV caches, in rows"));
  for (const name of names) {
    const { rows } = view.contexts[name];
    const row = make("div", "meter");
    const bar = make("span", "bar");
    const fill = make("i");
    fill.style.width = `${(100 * rows) / mostRows}%`;
    bar.append(fill);
    row.append(make("span", "mono", name), bar, make("span", "number", rows));
    card.append(row);
  }
  $("contexts").replaceChildren(card);
}

function showValues(view, event, step) {
  const names = view.values[event.machine];
  const card = make("div", "card");
  card.append(make("h2", "", `Values of ${event.machine}`));
  const table = make("table");
  const groups = names ? [["state", "", names.state], ["walk", `in walk ${names.name}`, names.walk]] : [];
  for (const [, title, group] of groups) {
    const entries = Object.entries(group);
    if (!entries.length) continue;
    if (title) {
      const row = table.insertRow();
      const cell = row.insertCell();
      cell.colSpan = 2;
      cell.className = "scope";
      cell.textContent = title;
    }
    for (const [name, value] of entries) {
      const row = table.insertRow();
      row.className = value.step === step ? "new" : "";
      row.insertCell().textContent = name;
      const cell = row.insertCell();
      cell.className = "mono";
      cell.textContent = value.text;
    }
  }
  if (table.rows.length) card.append(table);
  else card.append(make("p", "empty", "none yet"));
  $("values").replaceChildren(card);
}

/* The spec, with the statement of the step marked. */
const lineStarts = [0];
// Spans count code points, and so do these starts.
Array.from(model.source.text).forEach((symbol, index) => {
  if (symbol === "\n") lineStarts.push(index + 1);
});

function lineOf(offset) {
  let low = 0, high = lineStarts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (lineStarts[middle] <= offset) low = middle; else high = middle - 1;
  }
  return low;
}

const WORDS = new Set(model.words);
function drawSource() {
  $("path").textContent = model.source.path;
  const rows = model.source.text.split("\n").map((text, index) => {
    const row = make("div", "row");
    row.append(make("span", "number", index + 1));
    const code = make("span", "code");
    const pieces = text.match(/#.*|"(?:[^"\\]|\\.)*"|\w+|[^\w"#]+|./g) ?? [];
    for (const piece of pieces) {
      if (piece.startsWith("#")) code.append(make("span", "comment", piece));
      else if (piece.startsWith('"')) code.append(make("span", "string", piece));
      else if (WORDS.has(piece)) code.append(make("span", "word", piece));
      else code.append(piece);
    }
    row.append(code);
    return row;
  });
  $("source").replaceChildren(...rows);
}

function showSource(event) {
  const rows = $("source").children;
  for (const row of $("source").querySelectorAll(".at")) row.classList.remove("at");
  const key = event.path[event.path.length - 1] ?? "";
  const span = /^(\d+)-(\d+)/.exec(key);
  if (!span) return;
  const first = lineOf(Number(span[1]));
  const isGroup = ["pass", "read", "part"].includes(event.kind);
  const last = isGroup ? first : lineOf(Number(span[2]) - 1);
  for (let line = first; line <= last; line += 1) rows[line].classList.add("at");
  within($("source"), rows[first]);
}

/* Scroll a list so that one of its entries is seen, and never the page. */
function within(list, entry) {
  const top = entry.offsetTop - list.offsetTop;
  if (top < list.scrollTop + 30 || top > list.scrollTop + list.clientHeight - 60) {
    list.scrollTop = top - list.clientHeight / 2;
  }
}

function drawLog() {
  const entries = run.events.map((event, index) => {
    const entry = make("li");
    const button = make("button", event.kind);
    button.type = "button";
    button.append(make("span", "", index + 1), make("span", "", event.machine), make("span", "", event.text));
    button.addEventListener("click", () => go(index, false));
    entry.append(button);
    return entry;
  });
  $("log").replaceChildren(...entries);
}

function showLog(step) {
  const before = $("log").querySelector("[aria-current]");
  if (before) before.removeAttribute("aria-current");
  const button = $("log").children[step].firstChild;
  button.setAttribute("aria-current", "step");
  within($("log"), $("log").children[step]);
}

/* The overview: a row a machine, a stroke an event. */
const SVG = "http://www.w3.org/2000/svg";
const LABEL = 96, ROW = 16;
function shape(name, facts) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(facts)) element.setAttribute(key, value);
  return element;
}

function colourOf(event) {
  if (event.kind === "call") {
    const engine = engines.get(event.name.split(".")[0]);
    return engine === "kv_cache" ? "var(--kv)" : engine === "host" ? "var(--host)" : "var(--pure)";
  }
  if (["send", "read", "pull", "mark", "close"].includes(event.kind)) return "var(--stream)";
  if (event.kind === "emit") return "var(--out)";
  if (event.kind === "done" || event.kind === "state") return "var(--text)";
  return "var(--line)";
}

let head = null;
let across = () => 0;
function drawLanes() {
  const width = Math.max(320, $("lanes").clientWidth);
  const names = model.blocks.map((machine) => machine.name);
  const height = names.length * ROW + 4;
  const drawing = shape("svg", { viewBox: `0 0 ${width} ${height}`, height });
  const room = width - LABEL - 6;
  const each = room / run.events.length;
  across = (index) => LABEL + index * each;
  names.forEach((name, row) => {
    drawing.append(shape("rect", { class: "ground", x: LABEL, y: row * ROW + 2, width: room, height: ROW - 4, rx: 3 }));
    const label = shape("text", { x: 0, y: row * ROW + 12 });
    label.textContent = name.length > 14 ? `${name.slice(0, 13)}…` : name;
    drawing.append(label);
  });
  run.events.forEach((event, index) => {
    const row = names.indexOf(event.machine);
    drawing.append(shape("rect", { x: across(index), y: row * ROW + 2, width: Math.max(1, each - 0.6),
      height: ROW - 4, fill: colourOf(event) }));
  });
  head = shape("line", { class: "head", y1: 0, y2: height, x1: 0, x2: 0 });
  drawing.append(head);
  drawing.addEventListener("click", (click) => {
    const box = drawing.getBoundingClientRect();
    const x = ((click.clientX - box.left) * width) / box.width;
    go(Math.floor((x - LABEL) / each));
  });
  $("lanes").replaceChildren(drawing);
}

function showNow(event) {
  const who = event.state && event.state !== "done" ? `${event.machine} · ${event.state}` : event.machine;
  const parts = [make("span", "who", who), make("span", "what", event.text)];
  const gives = event.values.map(([name, text]) => `${name} = ${text}`);
  if (event.kind === "send" || event.kind === "emit") gives.push(...event.items.slice(0, 4));
  if (event.chunk) {
    const { offset, context, fresh } = event.chunk;
    gives.push(`items ${offset} to ${offset + context + fresh - 1}, ${fresh} of them new`);
  }
  if (gives.length) parts.push(make("span", "gives", `→ ${gives.join(", ")}`));
  if (event === run.events[run.events.length - 1]) {
    const end = run.error ? `the request ends with an error: ${run.error}`
      : run.stuck.length ? `${run.stuck.join(" and ")} wait for ever`
      : run.cut ? "what follows is not shown" : "the request is finished";
    parts.push(make("span", "gives", `— ${end}`));
  }
  $("now").replaceChildren(...parts);
}

function go(step, follow = true) {
  at = Math.max(0, Math.min(run.events.length - 1, step));
  const event = run.events[at];
  const view = fold(at);
  $("slider").value = at;
  $("slider").setAttribute("aria-valuetext", `step ${at + 1}: ${event.text}`);
  $("count").textContent = `step ${at + 1} of ${run.events.length}`;
  for (const side of ["x1", "x2"]) head.setAttribute(side, across(at + 0.5));
  showNow(event);
  showMachines(view, event);
  showStreams(view, at);
  showOutputs(view, at);
  showContexts(view);
  showValues(view, event, at);
  showSource(event);
  showLog(at);
  history.replaceState(null, "", `#step-${at + 1}`);
  if (follow && timer === null) {
    document.querySelector("li.block.at")?.scrollIntoView({ block: "nearest" });
  }
}

const NOTABLE = new Set(["read", "pull", "emit", "state", "close", "done", "context"]);
function goToNotable() {
  const found = run.events.findIndex((event, index) => index > at && NOTABLE.has(event.kind));
  go(found < 0 ? run.events.length - 1 : found);
}

function play(on) {
  clearInterval(timer);
  timer = null;
  if (on) {
    if (at === run.events.length - 1) go(0);
    timer = setInterval(() => {
      if (at === run.events.length - 1) play(false);
      else go(at + 1);
    }, 220);
  }
  $("play").classList.toggle("on", on);
  $("play").setAttribute("aria-label", on ? "Pause" : "Play");
  // Each step of a film read aloud would never end.
  $("now").setAttribute("aria-live", on ? "off" : "polite");
}

function choose(index) {
  run = model.runs[index];
  play(false);
  $("slider").max = run.events.length - 1;
  mostRows = Math.max(1, ...run.events.flatMap((event) => event.rows.map(([, rows]) => rows)));
  const facts = [...run.inputs, ...run.options].map(([name, text]) => {
    const fact = make("span", "", `${name} `);
    fact.append(make("b", "", text));
    return fact;
  });
  $("request").replaceChildren(make("span", "", `A toy request ${run.title}:`), ...facts);
  drawLog();
  drawLanes();
  go(0, false);
}

$("model").textContent = model.placement ? `${model.model} on ${model.placement}` : model.model;
$("next-event").textContent = "Next chunk or output";
model.runs.forEach((entry, index) => $("runs").add(new Option(entry.title, index)));
$("choose").hidden = model.runs.length < 2;
$("runs").addEventListener("change", () => choose(Number($("runs").value)));
$("first").addEventListener("click", () => go(0));
$("back").addEventListener("click", () => go(at - 1));
$("forward").addEventListener("click", () => go(at + 1));
$("last").addEventListener("click", () => go(run.events.length - 1));
$("play").addEventListener("click", () => play(timer === null));
$("next-event").addEventListener("click", goToNotable);
$("slider").addEventListener("input", () => go(Number($("slider").value)));
$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (["SELECT", "INPUT"].includes(event.target.tagName)) return;
  const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };
  if (event.key in steps && event.target.id !== "source") go(at + steps[event.key]);
  else if (event.key === "Home") go(0);
  else if (event.key === "End") go(run.events.length - 1);
  else if (event.key === "n") goToNotable();
  else if (event.key === " " && event.target.tagName !== "BUTTON") play(timer === null);
  else return;
  event.preventDefault();
});
addEventListener("resize", () => { drawLanes(); go(at, false); });

drawMachines();
drawSource();
const wanted = /^#step-(\d+)$/.exec(location.hash);
choose(0);
if (wanted) go(Number(wanted[1]) - 1, false);
