/* What each rank does, and the requests that are not over: the live feed as cards and a table. */

import { $, colour, make, seconds, sharp } from "./make.js";

const HISTORY = 120;

export class Ranks {
  constructor(place) {
    this.place = place;
    this.cards = new Map();
  }

  show(frame) {
    for (const worker of frame.workers) {
      let card = this.cards.get(worker.process);
      if (!card) {
        card = new Card(worker);
        this.cards.set(worker.process, card);
        this.place.append(card.element);
      }
      card.show(worker, frame);
    }
  }
}

class Card {
  constructor({ rank, copy, device }) {
    this.state = make("span", { className: "pill" });
    this.now = make("p", { className: "now" });
    this.line = make("canvas", { role: "img", "aria-label": "steps a second, lately" });
    this.facts = make("p", { className: "meta" });
    this.pages = make("div", { className: "pages" });
    const name = `rank ${rank}${copy ? `, copy ${copy}` : ""}`;
    this.element = make("article", { className: "rank", "aria-label": name },
      make("h3", {}, name, make("span", { className: "meta" }, device), this.state),
      this.now, this.line, this.facts, this.pages);
    this.before = null;
    this.rates = [];
    this.idle = 0;
  }

  show(worker, frame) {
    const before = this.before;
    this.before = { worker, time: frame.time_s };
    const how = worker.answers ? "answers" : frame.state === "ready" && frame.requests.length ? "busy" : frame.state;
    this.state.textContent = how === "ready" ? "silent" : how;
    this.state.className = `pill ${how === "answers" ? "ready" : how === "busy" || how === "starting" ? "" : "lost"}`;
    this.element.classList.toggle("silent", this.state.classList.contains("lost"));
    if (before) this.ran(worker, before, frame.time_s - before.time);
    const nodes = Object.entries(worker.pages);
    if (this.pages.children.length !== nodes.length) {
      this.pages.replaceChildren(...nodes.map(() => make("div", {}, make("span"),
        make("div", { className: "bar", "aria-hidden": "true" }, make("i")))));
    }
    nodes.forEach(([node, { used, free }], index) => {
      const [text, bar] = this.pages.children[index].children;
      text.textContent = `${node}: ${used} of ${used + free} pages`;
      bar.firstChild.style.width = `${(100 * used) / Math.max(1, used + free)}%`;
    });
  }

  /* What has run since the frame before. */
  ran(worker, { worker: old }, span) {
    const steps = Object.entries(worker.steps).map(([name, cost]) => {
      const was = old.steps[name] ?? cost;
      return { name, runs: cost.runs - was.runs, host: cost.host_us - was.host_us };
    });
    const runs = steps.reduce((sum, step) => sum + Math.max(0, step.runs), 0);
    const host = steps.reduce((sum, step) => sum + Math.max(0, step.host), 0);
    this.rates.push(runs / Math.max(span, 0.05));
    if (this.rates.length > HISTORY) this.rates.shift();
    const ran = steps.filter((step) => step.runs > 0).sort((one, two) => two.runs - one.runs);
    this.idle = ran.length ? 0 : this.idle + 1;
    if (ran.length) this.now.textContent = ran.slice(0, 2).map((step) => `${step.name} ×${step.runs}`).join(", ");
    else if (Object.values(worker.rows).some((rows) => rows.runs)) this.idle = 0;
    else if (this.idle > 6) this.now.textContent = "idle";
    const all = Object.values(worker.steps).reduce((sum, cost) => sum + cost.runs, 0);
    const each = runs ? `, ${Math.round(host / runs)} µs of the host each` : "";
    this.facts.textContent = `${Math.round(this.rates.at(-1))} steps/s${each}; ${all} so far`;
    const { context, width, height } = sharp(this.line);
    const most = Math.max(10, ...this.rates);
    context.fillStyle = colour("line");
    context.fillRect(0, height - 1, width, 1);
    context.fillStyle = colour("accent");
    const wide = width / HISTORY;
    this.rates.forEach((rate, index) => {
      const tall = (rate / most) * (height - 2);
      context.fillRect((index + HISTORY - this.rates.length) * wide, height - tall, Math.max(1, wide - 1), tall);
    });
  }
}

/* Where each request is: its steps, by number. */
export function placesOf(frame) {
  const places = new Map();
  for (const worker of frame.workers) {
    for (const [step, rows] of Object.entries(worker.rows)) {
      for (const [how, numbers] of Object.entries(rows)) {
        for (const number of numbers) {
          const said = how === "waits" ? `${step} (waits)` : how === "starved" ? `${step} (needs pages)` : step;
          places.set(number, [...(places.get(number) ?? []), said]);
        }
      }
    }
  }
  return places;
}

export function showRequests(frame, yours) {
  const places = placesOf(frame);
  const rows = frame.requests.map((request) => {
    const where = request.state === "waits" ? "waits for a slot" : (places.get(request.number) ?? ["on its way"]).join(", ");
    const mark = make("span", { className: `token ${yours.has(request.number) ? "yours" : ""}`,
      title: request.id }, String(request.number ?? "–"));
    return make("tr", {}, make("th", { scope: "row" }, mark), make("td", {}, request.route),
      make("td", { className: "where" }, where), make("td", {}, String(request.tokens)),
      make("td", {}, seconds(request.sound_s)), make("td", {}, seconds(request.age_s)));
  });
  if (!rows.length) rows.push(make("tr", {}, make("td", { colSpan: 6, className: "hint" }, "none now")));
  $("requests").replaceChildren(...rows);
}
