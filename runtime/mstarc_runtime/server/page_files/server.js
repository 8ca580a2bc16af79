/* Asks the server, with a key where it wants one, and reads its events. */

const KEY = "mstarc-key";
let key = sessionStorage.getItem(KEY) ?? "";
let asking = null;

/* What the server has answered instead of what was wanted. */
export class Refused extends Error {
  constructor(status, error) {
    super(error.message ?? `status ${status}`);
    this.status = status;
    this.code = error.code ?? String(status);
  }
}

/* A response that went well. `quietly`: without asking a person for a key. */
export async function ask(path, options = {}) {
  for (;;) {
    const headers = { ...options.headers };
    const used = key;
    if (used) headers.authorization = `Bearer ${used}`;
    const response = await fetch(path, { ...options, headers });
    if (response.ok) return response;
    const error = await errorOf(response);
    if (response.status !== 401) throw new Refused(response.status, error);
    // Another call may have been told a key meanwhile.
    if (key === used) await askForKey(error.message);
  }
}

export async function json(path) {
  return (await ask(path)).json();
}

/* The events of a response: objects, or "[DONE]". */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const parts = rest.split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      if (!part.startsWith("data: ")) continue;
      const text = part.slice("data: ".length);
      yield text === "[DONE]" ? text : JSON.parse(text);
    }
  }
}

async function errorOf(response) {
  try {
    return (await response.json()).error ?? {};
  } catch {
    return {};
  }
}

/* Opens the dialog, once for all that wait. */
export function askForKey(why = "") {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("key-dialog");
    document.getElementById("key-why").textContent = why;
    document.getElementById("key-button").hidden = false;
    dialog.addEventListener(
      "close",
      () => {
        key = document.getElementById("key").value.trim();
        sessionStorage.setItem(KEY, key);
        asking = null;
        resolve();
      },
      { once: true },
    );
    dialog.showModal();
  });
  return asking;
}
