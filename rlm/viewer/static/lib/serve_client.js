// The API of `rlm serve`: sessions, questions and events as they happen, with the token of this tab.

const KEY = "rlm-token";

// Whether this page is served by `rlm serve`, which can ask, and not by `rlm view`.
export const served = document.querySelector('meta[name="rlm-serve"]') !== null;

export function tokenOfTab() {
  return served ? sessionStorage.getItem(KEY) : null;
}

export function keepToken(token) {
  if (token) sessionStorage.setItem(KEY, token);
  else sessionStorage.removeItem(KEY);
}

export function authorization() {
  const token = tokenOfTab();
  return token ? { authorization: `Bearer ${token}` } : {};
}

async function request(path, { method = "GET", body, signal } = {}) {
  const headers = { ...authorization(), ...(body === undefined ? {} : { "content-type": "application/json" }) };
  const answer = await fetch(`v1/${path}`, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  if (answer.ok) return answer;
  const data = await answer.json().catch(() => null);
  const error = new Error(data?.error?.message ?? `the server answered ${answer.status}`);
  error.status = answer.status;
  throw error;
}

async function json(path, options) {
  return (await request(path, options)).json();
}

const named = (id) => encodeURIComponent(id);

export const api = {
  me: () => json("me"),
  models: () => json("models"),
  sessions: () => json("sessions"),
  session: (id) => json(`sessions/${named(id)}`),
  open: (model, inputs) => json("sessions", { method: "POST", body: { model, inputs } }),
  remove: (id) => json(`sessions/${named(id)}`, { method: "DELETE" }),
  ask: (id, question) => json(`sessions/${named(id)}/questions`, { method: "POST", body: { question } }),
  resume: (id) => json(`sessions/${named(id)}/resume`, { method: "POST" }),
  cancel: (run) => json(`runs/${named(run)}/cancel`, { method: "POST" }),
  run: (id) => json(`runs/${named(id)}`),
};

// Calls `take(kind, data)` for every event of a run, to its end. Goes on where it was when the connection breaks off.
export async function follow(run, take, signal) {
  let last = 0;
  for (let attempt = 0; attempt < 5; attempt += 1) {
    try {
      const answer = await request(`runs/${named(run)}/events?after=${last}`, { signal });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const events = (rest + value).split("\n\n");
        rest = events.pop();
        for (const text of events) {
          const event = parsed(text);
          if (!event) continue;
          attempt = 0;
          if (event.number) last = event.number;
          take(event.kind, event.data);
          if (event.kind === "result") return;
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error.status) throw error;
    }
    await new Promise((wake) => setTimeout(wake, 1000));
  }
  throw new Error("the server does not answer");
}

function parsed(text) {
  const event = { kind: null, number: 0, data: null };
  for (const part of text.split("\n")) {
    if (part.startsWith("id: ")) event.number = Number(part.slice(4));
    else if (part.startsWith("event: ")) event.kind = part.slice(7);
    else if (part.startsWith("data: ")) event.data = JSON.parse(part.slice(6));
  }
  return event.kind && event.data ? event : null;
}

// A file as an input: text, if it is UTF-8, or else bytes.
export async function inputOf(file) {
  const content = new Uint8Array(await file.arrayBuffer());
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(content);
  } catch {
    let binary = "";
    for (let start = 0; start < content.length; start += 32768) {
      binary += String.fromCharCode(...content.subarray(start, start + 32768));
    }
    return { $bytes: btoa(binary) };
  }
}

// The name of a file as the name of a variable.
export function variableOf(name) {
  const words = name
    .replace(/\.[^.]*$/, "")
    .replace(/[^A-Za-z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "")
    .toLowerCase();
  return /^[a-z]/.test(words) ? words.slice(0, 40) : `file_${words}`.slice(0, 40);
}
