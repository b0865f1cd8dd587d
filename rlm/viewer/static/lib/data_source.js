// The source of the page's data: its server, or the file that contains the page.

import { searchEvents } from "./embedded_search.js";
import { authorization } from "./serve_client.js";
import { indexOf } from "./untrusted_text.js";

const PIECE = 1000000;

export class ServerSource {
  embedded = false;
  #blobs = new Map();
  #texts = new Map();
  #runs = null;

  async #get(path) {
    return this.#read(await fetch(`api/${path}`, { headers: authorization() }));
  }

  // The same object as before if the answer is the same.
  async #unchanged(path) {
    const answer = await fetch(`api/${path}`, { headers: authorization() });
    if (!answer.ok) return this.#read(answer);
    const text = await answer.text();
    if (this.#texts.get(path)?.text !== text) this.#texts.set(path, { text, data: JSON.parse(text) });
    return this.#texts.get(path).data;
  }

  async #read(answer) {
    const data = await answer.json().catch(() => ({ problem: `the server answered ${answer.status}` }));
    if (!answer.ok) throw new Error(data.problem ?? data.error?.message ?? `the server answered ${answer.status}`);
    return data;
  }

  // All runs; the same object as before if nothing has changed.
  async runs() {
    const known = this.#runs ? `?known=${this.#runs.state}` : "";
    const answer = await this.#get(`runs${known}`);
    if (!answer.same) this.#runs = answer;
    return this.#runs;
  }

  async writeNote(id, text, labels) {
    const body = JSON.stringify({ text, labels });
    const headers = { "content-type": "application/json" };
    return this.#read(await fetch(`api/runs/${encodeURIComponent(id)}/note`, { method: "PUT", headers, body }));
  }

  // Where a file that code wrote can be fetched.
  fileAddress(id, digest) {
    return `api/runs/${encodeURIComponent(id)}/files/${encodeURIComponent(digest)}`;
  }

  approvals(id) {
    return this.#get(`runs/${encodeURIComponent(id)}/approvals`);
  }

  async answerApproval(id, approval, answer) {
    const headers = { "content-type": "application/json" };
    const address = `api/runs/${encodeURIComponent(id)}/approvals/${encodeURIComponent(approval)}`;
    return this.#read(await fetch(address, { method: "PUT", headers, body: JSON.stringify(answer) }));
  }

  search(id, text) {
    return this.#get(`runs/${encodeURIComponent(id)}/search?q=${encodeURIComponent(text)}`);
  }

  summary(id) {
    return this.#get(`runs/${encodeURIComponent(id)}`);
  }

  events(id, after) {
    return this.#get(`runs/${encodeURIComponent(id)}/events?after=${after}`);
  }

  async whole(id, sequences) {
    const wanted = sequences.filter((number) => Number.isInteger(number));
    if (!wanted.length) return new Map();
    const events = await this.#get(`runs/${encodeURIComponent(id)}/whole?only=${wanted.join(",")}`);
    return new Map(events.map((event) => [event[0], event[4]]));
  }

  variables(id, after, until) {
    return this.#get(`runs/${encodeURIComponent(id)}/variables?after=${after}&until=${until}`);
  }

  blob(id, digest, start, end) {
    const key = `${digest}:${start}:${end}`;
    if (!this.#blobs.has(key)) {
      if (this.#blobs.size > 300) this.#blobs.clear();
      const path = `runs/${encodeURIComponent(id)}/blobs/${encodeURIComponent(digest)}?start=${start}&end=${end}`;
      this.#blobs.set(key, this.#get(path));
    }
    return this.#blobs.get(key);
  }

  // The table of an evaluation; without a name, of the one that the server was started with.
  evaluation(name) {
    return this.#unchanged(name ? `evals/${encodeURIComponent(name)}` : "eval");
  }

  evaluations() {
    return this.#unchanged("evals");
  }

  compare(first, second) {
    return this.#get(`compare/${encodeURIComponent(first)}/${encodeURIComponent(second)}`);
  }
}

export class EmbeddedSource {
  embedded = true;

  constructor(data) {
    this.data = data;
    this.root = data.root;
  }

  #run(id) {
    const run = Object.hasOwn(this.data.runs, id) ? this.data.runs[id] : null;
    if (!run) throw new Error(`run ${id} is not in this file`);
    return run;
  }

  async runs() {
    return { runs: Object.values(this.data.runs).map((run) => run.summary.run), skipped: [] };
  }

  async summary(id) {
    return this.#run(id).summary;
  }

  async events(id, after) {
    const run = this.#run(id);
    return { run: run.summary.run, events: run.events.filter((event) => event[0] > after) };
  }

  async whole(id, sequences) {
    const wanted = new Set(sequences);
    const events = this.#run(id).events.filter((event) => wanted.has(event[0]));
    return new Map(events.map((event) => [event[0], event[4]]));
  }

  async variables(id, after, until) {
    return this.#run(id).events.filter((event) => event[2] === "variables" && event[0] > after && event[0] <= until);
  }

  async blob(id, digest, start, end) {
    const blob = Object.hasOwn(this.data.blobs, digest) ? this.data.blobs[digest] : null;
    if (!blob) throw new Error("this text is not in the file");
    const from = indexOf(blob.text, start);
    const to = from + indexOf(blob.text.slice(from), end - start);
    return { kind: blob.kind, start, text: blob.text.slice(from, to), more: to < blob.text.length };
  }

  async search(id, text) {
    const run = this.#run(id);
    const { beginning, ending } = run.summary;
    const events = [[0, null, "run_started", 0, beginning], ...run.events, [0, null, "run_ended", 0, ending]];
    return searchEvents(events, text, (digest) => (Object.hasOwn(this.data.blobs, digest) ? this.data.blobs[digest].text : ""));
  }

  async evaluation() {
    throw new Error("an evaluation can be looked at with `rlm eval view`, not in this file");
  }

  async compare() {
    throw new Error("two runs can be compared with `rlm view`, not in this file");
  }
}

// Whether a value of an event is a reference to a blob.
export function isReference(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) && typeof value.$body === "string";
}

export function sizeOf(value) {
  return isReference(value) ? Number(value.size) : String(value ?? "").length;
}

// The text of a value, up to a number of characters; `more` says whether it is longer.
export async function textOf(source, id, value, most = PIECE) {
  if (value === null || value === undefined) return { text: "", more: false };
  if (!isReference(value)) return { text: typeof value === "string" ? value : JSON.stringify(value), more: false };
  return source.blob(id, value.$body, 0, most);
}
