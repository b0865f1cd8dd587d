// How a run ended, as a small badge.

import { h } from "./dom.js";
import { line } from "./text.js";

export const ENDINGS = ["submitted", "extracted", "failed", "running", "unfinished"];

export function badge(ending) {
  const known = ENDINGS.includes(ending) ? ending : "unfinished";
  return h("span", { class: `badge ${known}` }, h("span", { class: "dot" }), line(ending, 20));
}
