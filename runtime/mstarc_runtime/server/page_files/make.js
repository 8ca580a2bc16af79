/* Elements, in few words. */

/* `facts`: properties, and attributes where a name has a dash or is `role`. */
export function make(tag, facts = {}, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(facts)) {
    if (value === undefined || value === null) continue;
    if (name.includes("-") || name === "role" || name === "for" || name === "scope") {
      element.setAttribute(name, value);
    } else if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
    } else {
      element[name] = value;
    }
  }
  element.append(...inside.filter((each) => each !== null && each !== undefined));
  return element;
}

export const $ = (id) => document.getElementById(id);

/* Told to who cannot see it. */
export function tell(text) {
  $("said").textContent = text;
}

export function seconds(value) {
  return value < 10 ? `${value.toFixed(2)} s` : `${value.toFixed(1)} s`;
}

/* A canvas as sharp as the screen; the context's unit is a CSS pixel. */
export function sharp(canvas) {
  const { width, height } = canvas.getBoundingClientRect();
  const ratio = devicePixelRatio || 1;
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
