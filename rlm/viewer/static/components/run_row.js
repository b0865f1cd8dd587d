// One run in the list.

import { badge, meter } from "./badge.js";
import { h } from "../lib/dom.js";
import { ago, clock, count, dollars, modelName, score, plural, seconds, short, titleOf } from "../lib/format.js";
import { line } from "../lib/untrusted_text.js";

export function runRow(run, { chosen, choose, go }) {
  const text = run.answer ?? run.reason ?? "";
  const pick = h("input", {
    type: "checkbox",
    "aria-label": `Choose ${run.id} to compare`,
    checked: chosen.has(run.id),
    on: { click: (event) => event.stopPropagation(), change: () => choose(run.id) },
  });
  return h(
    "div",
    {
      class: "run-row",
      "data-id": run.id,
      on: { click: (event) => event.target === pick || go(`#/run/${run.id}`) },
    },
    h("label", { class: "cell pick", on: { click: (event) => event.stopPropagation() } }, pick),
    h(
      "span",
      { class: "cell started" },
      h(
        "a",
        { class: "name", href: `#/run/${run.id}`, on: { click: (event) => event.stopPropagation() } },
        line(titleOf(run), 80),
      ),
      h(
        "span",
        { class: "sub", title: clock(run.started) },
        ago(run.started),
        run.parent ? " · child · " : " · ",
        h("code", {}, run.id),
      ),
    ),
    h("span", { class: "cell ending" }, badge(run.ending)),
    h(
      "span",
      { class: "cell confidence" },
      run.confidence === null || run.ending === "failed" || (run.ending === "submitted" && run.confidence === 1)
        ? h("span", { class: "none" }, "–")
        : [meter(run.confidence), h("span", { class: "figure" }, score(run.confidence))],
    ),
    h("span", { class: `cell answer ${run.answer ? "" : "why"}` }, line(text, 240)),
    h("span", { class: "cell model", title: String(run.model ?? "") }, line(modelName(run.model), 60)),
    h("span", { class: "cell iterations" }, run.iterations_used ? count(run.iterations_used) : "–"),
    h("span", { class: "cell tokens", title: plural(run.tokens, "token") }, short(run.tokens)),
    h("span", { class: "cell cost" }, dollars(run.cost_usd)),
    h("span", { class: "cell duration" }, seconds(run.duration)),
  );
}
