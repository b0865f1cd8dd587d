// The ending of a run as a badge, and its confidence or score as a bar.

import { h } from "../lib/dom.js";
import { percent } from "../lib/format.js";
import { line } from "../lib/untrusted_text.js";

export const ENDINGS = ["submitted", "extracted", "failed", "running", "unfinished", "resumed"];

export function badge(ending) {
  const known = ENDINGS.includes(ending) ? ending : "unfinished";
  return h("span", { class: `badge ${known}` }, h("span", { class: "dot" }), line(ending, 20));
}

export function meter(value) {
  const kind = value >= 0.9 ? "high" : value >= 0.5 ? "middle" : "low";
  return h("span", { class: "meter" }, h("span", { style: { width: percent(value) }, class: kind }));
}
