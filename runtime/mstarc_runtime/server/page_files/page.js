/* The page: asks the model, and shows what runs. Start here. */

import { Turn } from "./answers.js";
import { Composer } from "./composer.js";
import { Graph } from "./graph.js";
import { $, make, tell } from "./make.js";
import { Options } from "./options.js";
import { Ranks, showRequests } from "./ranks.js";
import { ask, askForKey, events, json, Refused } from "./server.js";
import { audio } from "./sound.js";

const yours = new Set();
const ids = new Set();
const page = { model: null, composer: null, options: null, graph: null, turn: null, leave: null };

// Light and dark

const chosen = localStorage.getItem("mstarc-theme");
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
function theme(name) {
  document.documentElement.dataset.theme = name;
  page.graph?.theme();
}
theme(chosen ?? (prefersDark.matches ? "dark" : "light"));
prefersDark.addEventListener("change", () => {
  if (!localStorage.getItem("mstarc-theme")) theme(prefersDark.matches ? "dark" : "light");
});
$("theme").addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("mstarc-theme", next);
  theme(next);
});

// The question

function wants() {
  return [...document.querySelectorAll("#wants input:checked")].map((box) => box.value);
}

function drawWants(outputs) {
  const choices = outputs.filter((output) => output.optional);
  const isChosen = (output) => {
    if (!output.optional) return true;
    if (outputs.some((other) => !other.optional)) return false;
    if (choices.some((other) => other.type === "text")) {
      return output.type === "text" || output.type.startsWith("audio");
    }
    return output === choices[0];
  };
  const boxes = outputs.map((output) => make("label", {},
    make("input", { type: "checkbox", value: output.name, checked: isChosen(output) }),
    output.name.replaceAll("_", " ")));
  $("wants").append(...boxes);
  $("wants").hidden = outputs.length < 2;
}

async function send() {
  if (page.turn) return;
  await page.composer.finishRecording();
  if (page.turn) return;
  $("problem").textContent = "";
  const { missing } = page.composer;
  if (missing.length) {
    $("problem").textContent = `Still needed: ${missing.map((name) => name.replaceAll("_", " ")).join(", ")}.`;
    page.composer.focus();
    return;
  }
  audio();
  let read;
  try {
    read = await page.composer.read();
  } catch (error) {
    $("problem").textContent = error.message;
    return;
  }
  const body = { inputs: read.given, options: page.options.values(), wants: wants(), stream: true };
  $("hint").hidden = true;
  const turn = (page.turn = new Turn($("log"), read.shown, page.model.outputs));
  page.composer.clear();
  busy(true);
  try {
    await answer(turn, body);
  } catch (error) {
    if (page.leave?.signal.aborted) turn.end(null);
    else turn.fail(error.message, error.code ?? "");
  }
  page.turn = null;
  busy(false);
}

async function answer(turn, body) {
  page.leave = new AbortController();
  // Named here, so that the request is known as ours before it is answered.
  const id = newId();
  ids.add(id);
  const response = await ask("generate", {
    method: "POST",
    headers: { "content-type": "application/json", "x-request-id": id },
    body: JSON.stringify(body),
    signal: page.leave.signal,
  });
  let isWhole = false;
  for await (const event of events(response)) {
    if (event === "[DONE]") isWhole = true;
    else if (event.error) throw new Refused(200, event.error);
    else turn.take(event);
  }
  if (!isWhole) throw new Error("The connection ended before the answer did.");
  turn.end(numberOf.get(id) ?? null);
  page.composer.parts?.remember(turn.reply);
  $("forget").hidden = !page.composer.parts?.before.length;
}

function newId() {
  const parts = crypto.getRandomValues(new Uint8Array(16));
  return [...parts].map((part) => part.toString(16).padStart(2, "0")).join("");
}

function busy(is) {
  $("send").hidden = is;
  $("stop").hidden = !is;
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
$("stop").addEventListener("click", () => {
  page.leave.abort();
  page.turn?.hush();
  tell("Stopped");
});
$("forget").addEventListener("click", () => {
  page.composer.parts.forget();
  $("forget").hidden = true;
  $("log").replaceChildren($("hint"));
  $("hint").hidden = false;
  page.composer.focus();
});
$("defaults").addEventListener("click", () => page.options.reset());
$("key-button").addEventListener("click", () => askForKey());

// What runs

const numberOf = new Map();
const states = {
  ready: "ready", starting: "loading", restarting: "a worker is started again", draining: "ending",
  lost: "a worker is lost", ended: "ended",
};

function show(frame, ranks) {
  for (const request of frame.requests) {
    if (!ids.has(request.id) || request.number === null) continue;
    yours.add(request.number);
    numberOf.set(request.id, request.number);
  }
  state(frame.state);
  const { totals } = frame;
  const parts = [`${frame.requests.length} of ${frame.slots} slots`, `${totals.finished} finished`];
  if (totals.failed) parts.push(`${totals.failed} failed`);
  if (totals.cancelled) parts.push(`${totals.cancelled} cancelled`);
  if (totals.refused) parts.push(`${totals.refused} refused`);
  if (totals.underruns) parts.push(`${totals.underruns} ${totals.underruns === 1 ? "gap" : "gaps"} in sound`);
  $("totals").textContent = parts.join(" · ");
  page.graph?.show(frame, yours);
  ranks.show(frame);
  showRequests(frame, yours);
}

function state(name) {
  const text = states[name] ?? name;
  if ($("state").textContent !== text) $("state").textContent = text;
  $("state").className = `pill ${name === "ready" ? "ready" : name === "lost" || name === "gone" ? "lost" : ""}`;
}

async function watch() {
  const ranks = new Ranks($("ranks"));
  for (;;) {
    try {
      const response = await ask("debug/live", { headers: { accept: "text/event-stream" } });
      for await (const frame of events(response)) show(frame, ranks);
    } catch (error) {
      if (error instanceof Refused) $("problem").textContent = error.message;
    }
    state("gone");
    $("state").textContent = "not reached";
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

// The beginning

function hint(inputs) {
  const types = inputs.map((input) => input.type).join(" ");
  const ways = [];
  if (types.includes("audio")) ways.push("record a question, or choose a sound");
  if (types.includes("text")) ways.push("write");
  if (types.includes("image")) ways.push("drop a picture");
  if (types.includes("video")) ways.push("drop a film");
  if (types.includes("tensor")) ways.push("give numbers");
  const said = ways.length > 1 ? `${ways.slice(0, -1).join(", ")} and ${ways.at(-1)}` : ways.join("");
  return `${said[0].toUpperCase()}${said.slice(1)}. It goes to this server and nowhere else.`;
}

async function begin() {
  const { data } = await json("v1/models");
  const model = (page.model = data[0]);
  document.title = `${model.id} · mstarc`;
  $("model").textContent = model.id;
  $("facts").textContent = `on ${model.placement}, ${model.max_requests} at once`;
  $("hint").textContent = hint(model.inputs);
  page.composer = new Composer($("inputs"), model.inputs, send);
  page.options = new Options($("option-list"), model.options, (count) => {
    $("changed").textContent = count ? `(${count} changed)` : "";
  });
  $("options").hidden = !Object.keys(model.options).length;
  drawWants(model.outputs);
  const drawing = await (await ask("page/graph.svg")).text();
  page.graph = new Graph($("graph"), drawing, model.placement);
  watch();
}

begin().catch((error) => {
  state("gone");
  $("state").textContent = "not reached";
  $("problem").textContent = error.message;
});
