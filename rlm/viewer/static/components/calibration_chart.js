// Confidence against right answers: the share of right answers by confidence.

import { h, svg } from "../lib/dom.js";
import { count, percent, plural, score } from "../lib/format.js";
import { confidenceOf, isRight } from "../lib/run_groups.js";

const EDGES = [0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0000001];
const SIZE = 170;
const MARGIN = 26; // for the names of the axes

// Rows with a confidence, of which it is known whether they are right, by confidence.
export function calibrationBins(rows) {
  const judged = rows.filter((row) => confidenceOf(row) !== null && isRight(row) !== null);
  return EDGES.slice(1)
    .map((edge, at) => judged.filter((row) => row.confidence >= EDGES[at] && row.confidence < edge))
    .filter((bin) => bin.length)
    .map((bin) => ({
      many: bin.length,
      confidence: bin.reduce((sum, row) => sum + row.confidence, 0) / bin.length,
      right: bin.filter(isRight).length / bin.length,
    }));
}

// The chart, and the same as a table; null if nothing is known.
export function calibrationChart(rows) {
  const bins = calibrationBins(rows);
  if (!bins.length) return null;
  const all = bins.reduce((sum, bin) => sum + bin.many, 0);
  const x = (value) => MARGIN + value * (SIZE - MARGIN - 8);
  const y = (value) => SIZE - x(value);
  const radius = (bin) => 3 + 6 * Math.sqrt(bin.many / all);
  const label = bins.map((bin) => `${score(bin.confidence)} confidence: ${percent(bin.right)} of ${bin.many} right`);
  return h(
    "figure",
    { class: "calibration" },
    svg(
      "svg",
      { viewBox: `0 0 ${SIZE} ${SIZE}`, width: SIZE, height: SIZE, role: "img", "aria-label": label.join("; ") },
      svg("rect", { class: "plot", x: x(0), y: y(1), width: x(1) - x(0), height: y(0) - y(1) }),
      svg("line", { class: "diagonal", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }),
      svg("text", { class: "axis", x: x(0.5), y: SIZE - 3, "text-anchor": "middle" }, "confidence"),
      svg("text", { class: "axis", x: -y(0.5), y: 11, "text-anchor": "middle", transform: "rotate(-90)" }, "right"),
      bins.map((bin, at) =>
        svg("circle", { cx: x(bin.confidence), cy: y(bin.right), r: radius(bin) }, svg("title", {}, label[at])),
      ),
    ),
    h(
      "div",
      {},
      h("figcaption", {}, "Confidence against right answers", h("span", { class: "muted" }, ` ${plural(all, "answer")}`)),
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, ["Confidence", "Right", "Answers"].map((name) => h("th", { scope: "col" }, name)))),
        h(
          "tbody",
          {},
          bins.map((bin) =>
            h("tr", {}, h("td", {}, score(bin.confidence)), h("td", {}, percent(bin.right)), h("td", {}, count(bin.many))),
          ),
        ),
      ),
    ),
  );
}
