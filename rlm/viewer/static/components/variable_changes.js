// The changes of cells to variables: added, changed with old and new value, removed.

import { h } from "../lib/dom.js";
import { count } from "../lib/format.js";
import { fold } from "./text_block.js";
import { shown } from "../lib/untrusted_text.js";
import { isReference } from "../lib/data_source.js";

export class VariableLog {
  #events = [];
  #last = 0;

  constructor(source, id) {
    this.source = source;
    this.id = id;
  }

  // The variables before an iteration, and its changes; `sequence` is the last event with changes.
  async at(number, sequence) {
    const fresh = sequence > this.#last ? await this.source.variables(this.id, this.#last, sequence) : [];
    for (const event of fresh) {
      if (event[0] <= this.#last) continue;
      this.#last = event[0];
      this.#events.push(event[4]);
    }
    const before = new Map();
    let here = null;
    for (const data of this.#events) {
      if (data.iteration > number) break;
      if (data.iteration === number) {
        here = here ?? { added: {}, changed: {}, removed: [] };
        Object.assign(here.added, data.added);
        Object.assign(here.changed, data.changed);
        here.removed.push(...(data.removed ?? []));
        continue;
      }
      for (const [name, value] of Object.entries({ ...data.added, ...data.changed })) before.set(name, value);
      for (const name of data.removed ?? []) before.delete(name);
    }
    return { before, data: here };
  }
}

function text(value) {
  return isReference(value) ? `${value.head}…` : String(value ?? "");
}

function kind(value) {
  const size = value.size === null || value.size === undefined ? "" : ` ${count(value.size)}`;
  return `${text(value.type)}${size}`;
}

function row(sign, name, value, before, marked) {
  return h(
    "tr",
    {
      class: `variable ${sign} ${name === marked ? "wanted" : ""}`,
      "data-variable": name,
      id: name === marked ? "evidence" : null,
    },
    h("td", { class: "sign", title: sign }, { added: "+", changed: "~", removed: "−", unchanged: "" }[sign]),
    h("th", { scope: "row" }, shown(name)),
    h("td", { class: "type" }, shown(kind(value))),
    h(
      "td",
      { class: "preview" },
      before && text(before.preview) !== text(value.preview) && h("del", {}, shown(text(before.preview))),
      sign === "removed" ? h("del", {}, shown(text(value.preview))) : h("span", {}, shown(text(value.preview))),
    ),
  );
}

// The changes of an iteration; each name is a link to this line.
export async function variableDiff(log, number, sequence, marked) {
  const { before, data } = await log.at(number, sequence);
  if (!data) return null;
  const unknown = { type: "", size: null, preview: "" };
  const rows = [
    ...Object.entries(data.added ?? {}).map(([name, value]) => row("added", name, value, null, marked)),
    ...Object.entries(data.changed ?? {}).map(([name, value]) => row("changed", name, value, before.get(name), marked)),
    ...(data.removed ?? []).map((name) => row("removed", String(name), before.get(name) ?? unknown, null, marked)),
  ];
  const touched = new Set([
    ...Object.keys(data.added ?? {}),
    ...Object.keys(data.changed ?? {}),
    ...(data.removed ?? []),
  ]);
  const unchanged = [...before].filter(([name]) => !touched.has(name));
  const rest = unchanged.length
    ? fold(`${count(unchanged.length)} unchanged`, () =>
        table(unchanged.map(([name, value]) => row("unchanged", name, value, null, marked))),
      )
    : null;
  if (!rows.length && !rest) return null;
  return h(
    "div",
    { class: "variables" },
    rows.length ? table(rows) : h("p", { class: "muted" }, "No variable changed."),
    rest,
  );
}

function table(rows) {
  return h("div", { class: "scroll" }, h("table", { class: "variable-table" }, h("tbody", {}, rows)));
}
