// Requests to the server, and events from it. What goes wrong is an Error whose message is a sentence.

export const client = sessionStorage.getItem("client") ?? crypto.randomUUID();
sessionStorage.setItem("client", client);

export async function get(path) {
  return answered(await reached(path, { headers: { Accept: "application/json" } }));
}

export async function send(method, path, body, { keepalive = false } = {}) {
  const binary = body instanceof Blob || body instanceof ArrayBuffer;
  return answered(
    await reached(path, {
      method,
      keepalive,
      headers: binary ? {} : { "Content-Type": "application/json" },
      body: body === undefined || binary ? body : JSON.stringify(body),
    }),
  );
}

export class Unreachable extends Error {}

async function reached(path, options) {
  try {
    return await fetch(path, options);
  } catch {
    throw new Unreachable("The studio does not answer. Is it still running? Changes are kept here and will be sent again.");
  }
}

async function answered(response) {
  if (response.status === 204) return null;
  const json = (response.headers.get("Content-Type") ?? "").startsWith("application/json");
  const content = json ? await response.json() : await response.text();
  if (!response.ok) {
    const error = new Error(content?.error ?? `The server answered ${response.status}.`);
    error.status = response.status;
    throw error;
  }
  return content;
}

// One stream for all listeners of a page; the browser connects again by itself.
const listeners = new Map();
let stream = null;

export function on(type, listener) {
  if (!listeners.has(type)) listeners.set(type, new Set());
  listeners.get(type).add(listener);
  stream ??= connect();
  return () => listeners.get(type).delete(listener);
}

function connect() {
  const source = new EventSource("/api/events");
  let lost = false;
  source.onmessage = (message) => {
    const event = JSON.parse(message.data);
    for (const listener of listeners.get(event.type) ?? []) listener(event);
  };
  source.onerror = () => {
    if (!lost) emit({ type: "lost" });
    lost = true;
  };
  source.onopen = () => {
    if (lost) emit({ type: "back" });
    lost = false;
  };
  addEventListener("pagehide", () => source.close());
  return source;
}

function emit(event) {
  for (const listener of listeners.get(event.type) ?? []) listener(event);
}
