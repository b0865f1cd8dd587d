// One sample of an evaluation in its table.

import { badge, meter } from "./badge.js";
import { h } from "../lib/dom.js";
import { dollars, length, score, plural, seconds, short } from "../lib/format.js";
import { line } from "../lib/untrusted_text.js";

export function sampleRow(row, { go }) {
  const place = row.id ? `#/run/${encodeURIComponent(row.id)}` : null;
  const name = line(row.sample, 80);
  return h(
    "div",
    {
      class: `sample-row ${place ? "" : "closed"}`,
      "data-sample": row.sample,
      on: { click: () => place && go(place) },
    },
    h(
      "span",
      { class: "cell started" },
      place
        ? h("a", { class: "name", href: place, on: { click: (event) => event.stopPropagation() } }, name)
        : h("span", { class: "name" }, name),
      h(
        "span",
        { class: "sub" },
        line(row.suite, 40),
        ` · ${length(row.length)}`,
        row.epoch > 1 ? ` · epoch ${Number(row.epoch)}` : "",
      ),
    ),
    h("span", { class: "cell score" }, meter(row.score), h("span", { class: "figure" }, row.score.toFixed(2))),
    h("span", { class: "cell ending" }, badge(row.ending)),
    h(
      "span",
      { class: "cell confidence" },
      row.ending === "failed" || (row.ending === "submitted" && row.confidence === 1)
        ? h("span", { class: "none" }, "–") : [meter(row.confidence), score(row.confidence)],
    ),
    h(
      "span",
      { class: "cell answer" },
      h("span", { class: row.answer ? "given" : "given why" }, line(row.answer ?? row.reason ?? "", 240)),
      h("span", { class: "sub" }, line(`expected ${row.expected}`, 240)),
    ),
    h("span", { class: "cell tokens", title: plural(row.tokens, "token") }, short(row.tokens)),
    h("span", { class: "cell cost" }, dollars(row.cost_usd)),
    h("span", { class: "cell duration" }, seconds(row.duration)),
  );
}
