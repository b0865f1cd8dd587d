// The answer: each output field, and links to where it came from.

import { h } from "../lib/dom.js";
import { percent } from "../lib/format.js";
import { line, shown } from "../lib/untrusted_text.js";
import { valueOf } from "./value_view.js";

const MOST_LINKS = 6;

function fieldOf(pointer) {
  return String(pointer).split("/")[1]?.replaceAll("~1", "/").replaceAll("~0", "~") ?? "";
}

// The address of one piece of evidence inside the page.
export function placeOf(model, one) {
  if (Number.isInteger(one.iteration) && Array.isArray(one.span)) {
    return `#/run/${model.id}/${one.iteration}?mark=${Number(one.span[0])}-${Number(one.span[1])}`;
  }
  const places = model.summary.set_at;
  const number = Object.hasOwn(places, one.variable) ? places[one.variable] : null;
  return number === null ? null : `#/run/${model.id}/${number}?variable=${encodeURIComponent(one.variable)}`;
}

function evidenceLink(model, one) {
  const place = placeOf(model, one);
  const number = /\/(\d+)\?/.exec(place ?? "")?.[1];
  const said =
    one.kind === "variable"
      ? [h("code", {}, line(one.variable, 40)), number && h("span", { class: "muted" }, ` at ${number}`)]
      : ["printed", h("span", { class: "muted" }, ` at ${one.iteration}`)];
  const about = `${one.path}: ${String(one.quote ?? "").slice(0, 200)}`;
  return place
    ? h("a", { class: `evidence ${one.kind}`, href: place, title: about, "data-path": one.path }, said)
    : h("span", { class: `evidence ${one.kind}`, title: about }, said);
}

function evidenceOf(model, field, all, submitted) {
  const found = all.filter((one) => one && fieldOf(one.path) === field);
  if (found.length) {
    const rest = found.length - MOST_LINKS;
    return [
      found.slice(0, MOST_LINKS).map((one) => evidenceLink(model, one)),
      rest > 0 && h("span", { class: "muted" }, ` and ${rest} more`),
    ];
  }
  if (submitted && model.iterations.length) {
    const last = model.iterations.at(-1).number;
    return h(
      "a",
      { class: "evidence submitted", href: `#/run/${model.id}/${last}` },
      "submitted",
      h("span", { class: "muted" }, ` at ${last}`),
    );
  }
  return h("span", { class: "evidence none" }, "nothing found");
}

export function answer(source, model) {
  const ending = model.summary.ending;
  const result = ending.result ?? {};
  const run = model.run;
  const outputs = result.outputs ?? result.partial_outputs;
  const submitted = run.ending === "submitted";
  const evidence = Array.isArray(result.evidence) ? result.evidence : [];
  const known =
    outputs && typeof outputs === "object" && !Array.isArray(outputs) && !("$body" in outputs) && !("$json" in outputs);
  const rows = known
    ? Object.entries(outputs).map(([name, value]) =>
        h(
          "tr",
          { "data-field": name },
          h("th", { scope: "row" }, shown(name)),
          h("td", { class: "answer-value" }, valueOf(source, model.id, value)),
          run.ending !== "failed" &&
            h("td", { class: "answer-evidence" }, evidenceOf(model, name, evidence, submitted)),
        ),
      )
    : [];
  const sure = run.confidence;
  return h(
    "section",
    { class: "card answer-card", "aria-label": "Answer" },
    h(
      "div",
      { class: "card-head" },
      h("h2", {}, run.ending === "failed" && outputs ? "What there is of an answer" : "Answer"),
      run.ending === "extracted" && h("span", { class: "confidence-note" }, `extracted, confidence ${percent(sure)}`),
    ),
    run.reason && h("p", { class: `reason ${run.ending}` }, shown(run.reason)),
    rows.length
      ? h("table", { class: "answers" }, h("tbody", {}, rows))
      : outputs !== undefined && outputs !== null
        ? valueOf(source, model.id, outputs)
        : h(
            "p",
            { class: "muted" },
            {
              running: "The run goes on; there is no answer yet.",
              unfinished: "The record ends before there was an answer.",
            }[run.ending] ?? "There is none.",
          ),
    result.extraction_notes &&
      h(
        "p",
        { class: "notes" },
        h("b", {}, "Notes of the extraction "),
        valueOf(source, model.id, result.extraction_notes),
      ),
  );
}
