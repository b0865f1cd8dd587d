// Recorded values: JSON in which long texts are references.

import { fold, textBlock } from "./text_block.js";
import { h } from "../lib/dom.js";
import { count, plural } from "../lib/format.js";
import { isReference } from "../lib/data_source.js";
import { shown } from "../lib/untrusted_text.js";

const MOST = 50;
const DEEP = 8;

export function valueOf(source, id, value, depth = 0) {
  if (isReference(value)) {
    return fold(
      [
        h("span", { class: "value" }, shown(`${value.head ?? ""}…`)),
        h("span", { class: "muted" }, ` ${plural(value.size, "character")}`),
      ],
      () => textBlock(source, id, value),
      { className: "inline" },
    );
  }
  if (value !== null && typeof value === "object" && "$json" in value) return valueOf(source, id, value.$json, depth);
  if (value === null || value === undefined) return h("span", { class: "value null" }, "null");
  if (typeof value === "string")
    return h(
      "span",
      { class: "value string" },
      value === "" ? h("span", { class: "muted" }, "empty text") : shown(value),
    );
  if (typeof value !== "object") return h("span", { class: `value ${typeof value}` }, String(value));
  const entries = Array.isArray(value) ? value.map((item, index) => [index, item]) : Object.entries(value);
  if (!entries.length) return h("span", { class: "value muted" }, Array.isArray(value) ? "[ ]" : "{ }");
  if (depth >= DEEP) return h("span", { class: "value muted" }, `${count(entries.length)} more inside`);
  const simple =
    Array.isArray(value) && entries.length <= 12 && value.every((item) => item === null || typeof item !== "object");
  if (simple)
    return h(
      "span",
      { class: "value list" },
      value.map((item) => h("span", { class: "item" }, valueOf(source, id, item, depth + 1))),
    );
  return h(
    "dl",
    { class: "value nested" },
    entries
      .slice(0, MOST)
      .map(([name, item]) => [h("dt", {}, shown(String(name))), h("dd", {}, valueOf(source, id, item, depth + 1))]),
    entries.length > MOST && [h("dt", {}, "…"), h("dd", { class: "muted" }, `${count(entries.length - MOST)} more`)],
  );
}
