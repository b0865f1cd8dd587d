// Two texts side by side, with the lines marked that differ.

import { paired } from "../lib/line_diff.js";
import { h } from "../lib/dom.js";
import { shown } from "../lib/untrusted_text.js";

const MOST_LINES = 400;

export function diffed(first, second) {
  const pairs = paired(first ?? "", second ?? "");
  const cell = (text, other) =>
    h(
      "td",
      { class: text === null ? "none" : text === other ? "" : "changed" },
      text === null ? "" : shown(text.length > 4000 ? `${text.slice(0, 4000)}…` : text),
    );
  const rows = pairs
    .slice(0, MOST_LINES)
    .map(([left, right]) =>
      h("tr", {}, cell(first === undefined ? null : left, right), cell(second === undefined ? null : right, left)),
    );
  const rest = pairs.length - MOST_LINES;
  return h(
    "div",
    { class: "scroll" },
    h("table", { class: "diff" }, h("tbody", {}, rows)),
    rest > 0 && h("p", { class: "muted" }, `${rest} more lines are not shown.`),
  );
}
