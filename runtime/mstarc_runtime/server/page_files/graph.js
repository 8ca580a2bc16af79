/* The plan's drawing, alive: where each request is, and which steps have just run. */

const NAMESPACE = "http://www.w3.org/2000/svg";
const ADDED = `
.token circle, .token rect { fill: #5b6680; stroke: var(--ground); stroke-width: 1.5; }
.token text { fill: #fff; font-size: 11px; font-weight: 700; }
.token.waits rect { fill: var(--ground); stroke: #5b6680; stroke-width: 2; }
.token.waits text { fill: var(--ink); }
.token.yours rect { fill: #d6336c; }
.token.yours.waits rect { fill: var(--ground); stroke: #d6336c; }
.call { transition: stroke .9s, stroke-width .9s; }
.call.ran { stroke: #f08c00; stroke-width: 4; stroke-dasharray: none; transition: none; }
.rate { font-size: 10.5px; fill: #f08c00; font-weight: 700; }
svg { display: block; min-width: 640px; width: 100%; height: auto; }
:host { --ground: #fff; --ink: #131a2b; } :host([data-theme="dark"]) { --ground: #0d1117; --ink: #f0f3f6; }
`;

export class Graph {
  /* Draws into `place`. Without a panel of this placement the tables alone say what runs. */
  constructor(place, text, placement) {
    this.root = place.shadowRoot ?? place.attachShadow({ mode: "open" });
    this.place = place;
    // Its style goes another way: a page of this policy runs none that stands in a document.
    let style = "";
    const bare = text.replace(/<style>([^]*?)<\/style>/, (_, rules) => ((style = rules), ""));
    const drawing = new DOMParser().parseFromString(bare, "image/svg+xml").documentElement;
    this.sheet = new CSSStyleSheet();
    this.sheet.replaceSync(style);
    const added = new CSSStyleSheet();
    added.replaceSync(ADDED);
    this.root.adoptedStyleSheets = [this.sheet, added];
    this.svg = document.importNode(drawing, true);
    this.svg.querySelector(".ground")?.remove();
    const own = `[data-placement="${CSS.escape(placement)}"]`;
    const bands = [...this.svg.querySelectorAll(`.band${own}`)].map(boxOf);
    this.isThere = bands.length > 0;
    place.hidden = !this.isThere;
    if (!this.isThere) return;
    const top = Math.min(...bands.map((band) => band.y)) - 10;
    const bottom = Math.max(...bands.map((band) => band.y + band.height)) + 10;
    const left = Math.min(...bands.map((band) => band.x)) - 10;
    const right = Math.max(...bands.map((band) => band.x + band.width)) + 10;
    this.svg.setAttribute("viewBox", `${left} ${top} ${right - left} ${bottom - top}`);
    this.svg.removeAttribute("width");
    this.svg.removeAttribute("height");
    this.calls = new Map();
    for (const rect of this.svg.querySelectorAll(`.call${own}`)) {
      const key = `${rect.dataset.rank} ${rect.dataset.step}`;
      this.calls.set(key, [...(this.calls.get(key) ?? []), rect]);
    }
    this.marks = document.createElementNS(NAMESPACE, "g");
    this.svg.append(this.marks);
    this.root.replaceChildren(this.svg);
    this.runs = new Map();
    // Who looks around is not led away.
    this.ledFrom = 0;
    for (const kind of ["wheel", "pointerdown", "keydown"]) {
      place.addEventListener(kind, () => (this.ledFrom = performance.now() + 8000), { passive: true });
    }
    this.theme();
  }

  /* Light or dark, as the page is. */
  theme() {
    const isDark = document.documentElement.dataset.theme === "dark";
    this.place.dataset.theme = isDark ? "dark" : "light";
    for (const rule of this.sheet.cssRules) {
      if (rule instanceof CSSMediaRule) rule.media.mediaText = isDark ? "all" : "not all";
    }
  }

  /* Shows a frame; `yours` are the numbers of requests that this page has made. */
  show(frame, yours) {
    if (!this.isThere) return;
    const marks = [];
    let mine = null;
    for (const worker of frame.workers) {
      for (const [step, cost] of Object.entries(worker.steps)) {
        const rects = this.calls.get(`${worker.rank} ${step}`);
        if (!rects) continue;
        const key = `${worker.process} ${step}`;
        const before = this.runs.get(key);
        this.runs.set(key, cost.runs);
        const more = before === undefined ? 0 : cost.runs - before;
        for (const rect of rects) this.heat(rect, more > 0);
        if (more > 1) marks.push(this.rate(rects[0], more));
      }
      for (const [step, rows] of Object.entries(worker.rows)) {
        const rects = this.calls.get(`${worker.rank} ${step}`);
        if (!rects) continue;
        marks.push(...this.tokens(rects[0], rows, yours));
        const run = [...(rows.runs ?? []), ...(rows.ready ?? [])];
        if (run.some((number) => yours.has(number))) mine = rects[0];
      }
    }
    this.marks.replaceChildren(...marks);
    if (mine) this.lead(mine);
  }

  /* Scrolls to a box that can't be seen. */
  lead(rect) {
    const now = performance.now();
    if (now < this.ledFrom) return;
    const [box, view] = [rect.getBoundingClientRect(), this.place.getBoundingClientRect()];
    if (box.top > view.top + 10 && box.bottom < view.bottom - 10) return;
    this.ledFrom = now + 700;
    const top = this.place.scrollTop + box.top - view.top - view.height / 2;
    const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
    this.place.scrollTo({ top, behavior });
  }

  heat(rect, ran) {
    if (ran) rect.classList.add("ran");
    else if (rect.classList.contains("ran")) rect.classList.remove("ran");
  }

  rate(rect, more) {
    const { x, y, width } = boxOf(rect);
    return word(`×${more}`, x + width, y - 4, "rate halo", "end");
  }

  tokens(rect, rows, yours) {
    const { x, y, width } = boxOf(rect);
    const all = Object.entries(rows).flatMap(([how, numbers]) =>
      numbers.map((number) => ({ number, waits: how === "waits" || how === "starved" })));
    all.sort((one, two) => Number(yours.has(two.number)) - Number(yours.has(one.number)));
    const room = Math.max(2, Math.floor(width / 34));
    const shown = all.slice(0, all.length > room ? room - 1 : room);
    const labels = shown.map(({ number, waits }) => ({ text: String(number), waits, mine: yours.has(number) }));
    if (shown.length < all.length) labels.push({ text: `+${all.length - shown.length}` });
    return labels.map(({ text, waits, mine }, index) => {
      const group = document.createElementNS(NAMESPACE, "g");
      group.setAttribute("class", `token ${waits ? "waits" : ""} ${mine ? "yours" : ""}`);
      const wide = Math.max(18, 10 + 7 * text.length);
      const box = document.createElementNS(NAMESPACE, "rect");
      const facts = { x: x + 6 + index * 33, y: y - 10, width: wide, height: 18, rx: 9 };
      for (const [name, value] of Object.entries(facts)) box.setAttribute(name, value);
      group.append(box, word(text, facts.x + wide / 2, y + 3.2, "", "middle"));
      return group;
    });
  }
}

function boxOf(rect) {
  const read = (name) => Number(rect.getAttribute(name));
  return { x: read("x"), y: read("y"), width: read("width"), height: read("height") };
}

function word(text, x, y, style, anchor) {
  const element = document.createElementNS(NAMESPACE, "text");
  element.setAttribute("x", x);
  element.setAttribute("y", y);
  element.setAttribute("class", style);
  element.setAttribute("text-anchor", anchor);
  element.textContent = text;
  return element;
}
