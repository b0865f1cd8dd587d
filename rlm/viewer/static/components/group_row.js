// One group of runs in a table: its endings as a bar, mean confidence, share of right answers, cost.

import { ENDINGS, meter } from "./badge.js";
import { h } from "../lib/dom.js";
import { ago, clock, count, dollars, percent, plural, score, seconds, short } from "../lib/format.js";
import { line } from "../lib/untrusted_text.js";

// The endings of runs as parts of a bar.
export function endingsBar(endings) {
  const present = ENDINGS.filter((name) => endings[name]);
  const text = present.map((name) => `${count(endings[name])} ${name}`).join(", ");
  return h(
    "span",
    { class: "endings-bar", role: "img", "aria-label": text, title: text },
    present.map((name) => h("span", { class: name, style: { "flex-grow": String(endings[name]) } }, count(endings[name]))),
  );
}

export function groupRow(group, { open, address, most }) {
  const share = most > 0 && group.cost ? Math.max(0.01, group.cost / most) : 0;
  return h(
    "div",
    { class: "group-row", "data-group": group.key, on: { click: () => open(group) } },
    h(
      "span",
      { class: "cell started" },
      h(
        "a",
        { class: "name", href: address(group), on: { click: (event) => event.stopPropagation() } },
        line(group.title, 80),
      ),
      h(
        "span",
        { class: "sub", title: clock(group.started) },
        ago(group.started),
        group.items ? ` · ${plural(group.items, "item")}` : "",
        group.sub ? " · " : "",
        line(group.sub, 120),
      ),
    ),
    h("span", { class: "cell many" }, count(group.runs.length)),
    h("span", { class: "cell endings" }, endingsBar(group.endings)),
    h(
      "span",
      { class: "cell confidence" },
      group.confidence === null
        ? h("span", { class: "none" }, "–")
        : [meter(group.confidence), h("span", { class: "figure" }, score(group.confidence))],
    ),
    h(
      "span",
      { class: "cell right", title: `${plural(group.judged, "answer")} known to be right or wrong` },
      group.judged
        ? [meter(group.right), h("span", { class: "figure" }, percent(group.right)), h("span", { class: "muted" }, ` of ${count(group.judged)}`)]
        : h("span", { class: "none" }, "–"),
    ),
    h("span", { class: "cell tokens", title: plural(group.tokens, "token") }, short(group.tokens)),
    h(
      "span",
      { class: "cell cost" },
      dollars(group.cost),
      share ? h("span", { class: "cost-bar" }, h("span", { style: { width: percent(share) } })) : null,
    ),
    h("span", { class: "cell duration" }, seconds(group.duration)),
  );
}
