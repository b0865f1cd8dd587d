// What cells did to the variables: added, changed from what to what, removed.

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

  // The variables before an iteration, and what it did to them; `sequence` is the last event that tells of it.
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
      for (const [name, one] of Object.entries({ ...data.added, ...data.changed })) before.set(name, one);
      for (const name of data.removed ?? []) before.delete(name);
    }
    return { before, data: here };
  }
}

function text(value) {
  return isReference(value) ? `${value.head}…` : String(value ?? "");
}

function kind(one) {
  const size = one.size === null || one.size === undefined ? "" : ` ${count(one.size)}`;
  return `${text(one.type)}${size}`;
}

function row(sign, name, one, before, wanted) {
  return h(
    "tr",
    {
      class: `variable ${sign} ${name === wanted ? "wanted" : ""}`,
      "data-variable": name,
      id: name === wanted ? "evidence" : null,
    },
    h("td", { class: "sign", title: sign }, { added: "+", changed: "~", removed: "−", kept: "" }[sign]),
    h("th", { scope: "row" }, shown(name)),
    h("td", { class: "type" }, shown(kind(one))),
    h(
      "td",
      { class: "preview" },
      before && text(before.preview) !== text(one.preview) && h("del", {}, shown(text(before.preview))),
      sign === "removed" ? h("del", {}, shown(text(one.preview))) : h("span", {}, shown(text(one.preview))),
    ),
  );
}

export async function variableDiff(log, number, sequence, wanted) {
  const { before, data } = await log.at(number, sequence);
  if (!data) return null;
  const unknown = { type: "", size: null, preview: "" };
  const rows = [
    ...Object.entries(data.added ?? {}).map(([name, one]) => row("added", name, one, null, wanted)),
    ...Object.entries(data.changed ?? {}).map(([name, one]) => row("changed", name, one, before.get(name), wanted)),
    ...(data.removed ?? []).map((name) => row("removed", String(name), before.get(name) ?? unknown, null, wanted)),
  ];
  const touched = new Set([
    ...Object.keys(data.added ?? {}),
    ...Object.keys(data.changed ?? {}),
    ...(data.removed ?? []),
  ]);
  const kept = [...before].filter(([name]) => !touched.has(name));
  const rest = kept.length
    ? fold(`${count(kept.length)} unchanged`, () =>
        table(kept.map(([name, one]) => row("kept", name, one, null, wanted))),
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
