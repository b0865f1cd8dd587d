// The answer: each output field with its value and links to its evidence; for a sample, also the expected value.

import { copyButton, wholeText } from "./copy_button.js";
import { agreementPart } from "./agreement.js";
import { isCheck, isOrigin, isUnsupported, originButton } from "./evidence_chain.js";
import { meter } from "./badge.js";
import { h } from "../lib/dom.js";
import { score } from "../lib/format.js";
import { line, shown } from "../lib/untrusted_text.js";
import { valueOf } from "./value_view.js";

const MAX_LINKS = 6;

function fieldOf(pointer) {
  return String(pointer).split("/")[1]?.replaceAll("~1", "/").replaceAll("~0", "~") ?? "";
}

// The address of one piece of evidence inside the page.
export function evidenceAddress(model, item) {
  const run = model.answeredBy.id;
  if (Number.isInteger(item.iteration) && Array.isArray(item.span)) {
    return `#/run/${run}/${item.iteration}?mark=${Number(item.span[0])}-${Number(item.span[1])}`;
  }
  const setAt = model.summary.set_at;
  const number = Object.hasOwn(setAt, item.variable) ? setAt[item.variable] : null;
  return number === null ? null : `#/run/${run}/${number}?variable=${encodeURIComponent(item.variable)}`;
}

function evidenceLink(model, item) {
  const address = evidenceAddress(model, item);
  const number = /\/(\d+)\?/.exec(address ?? "")?.[1];
  const label =
    item.kind === "variable"
      ? [h("code", {}, line(item.variable, 40)), number && h("span", { class: "muted" }, ` at ${number}`)]
      : ["printed", h("span", { class: "muted" }, ` at ${item.iteration}`)];
  const title = `${item.path}: ${String(item.quote ?? "").slice(0, 200)}`;
  return address
    ? h("a", { class: `evidence ${item.kind}`, href: address, title, "data-path": item.path }, label)
    : h("span", { class: `evidence ${item.kind}`, title }, label);
}

// The iteration that submitted; it may be one of the run of an accepted plan.
function submittedLink(model) {
  const { answeredBy } = model;
  const child = answeredBy.id !== model.id;
  const number = child ? answeredBy.iterations_used : model.iterations.at(-1)?.number;
  if (!number) return null;
  return h(
    "a",
    { class: "evidence submitted", href: `#/run/${answeredBy.id}/${number}` },
    "submitted",
    h("span", { class: "muted" }, child ? ` at ${number} of ${answeredBy.task ?? answeredBy.id}` : ` at ${number}`),
  );
}

// The origins of a field, each of which opens its chain, then the places where it was found, and the submission.
function evidenceOf(model, items, submitted) {
  const place = h("div", { class: "chain-place" });
  const chained = [...items.filter(isOrigin), ...items.filter(isCheck)];
  const buttons = chained.map((item) => originButton(model.answeredBy.id, item, place));
  const places = items.filter((item) => !isOrigin(item) && !isCheck(item));
  const links = [...buttons, ...places.map((item) => evidenceLink(model, item))];
  const rest = links.length - MAX_LINKS;
  const link = submitted ? submittedLink(model) : null;
  if (!links.length && !link) links.push(h("span", { class: "evidence none" }, submitted ? "submitted" : "no evidence"));
  return [links.slice(0, MAX_LINKS), rest > 0 && h("span", { class: "muted" }, ` and ${rest} more `), link, place];
}

function expectedCell(sample, name) {
  const score = sample.scores[name];
  const known = typeof score === "number";
  return h(
    "td",
    { class: "answer-expected", "data-label": "expected" },
    h("span", { class: "value" }, Object.hasOwn(sample.expected, name) ? shown(String(sample.expected[name])) : "–"),
    known && h("span", { class: `field-score ${score >= 1 ? "right" : "wrong"}` }, score >= 1 ? "✓" : score.toFixed(2)),
  );
}

function sampleLine(sample) {
  return h(
    "p",
    { class: "sample-line" },
    "Score ",
    meter(sample.score),
    h("b", {}, sample.score.toFixed(2)),
    h("span", { class: "muted" }, line(`sample ${sample.sample} of ${sample.suite}, epoch ${sample.epoch}`, 120)),
    sample.evaluation && h("a", { href: `#/eval/${encodeURIComponent(sample.evaluation)}` }, line(sample.evaluation, 60)),
  );
}

const NO_ANSWER = {
  running: "The run is not finished; there is no answer yet.",
  unfinished: "The trace ends before there was an answer.",
  resumed: "The trace ends before there was an answer; another run went on from here.",
};

export function answerCard(source, model) {
  const { run } = model;
  const { sample } = model.summary;
  const result = model.summary.ending.result ?? {};
  const outputs = result.outputs ?? result.partial_outputs;
  const submitted = run.ending === "submitted";
  const evidence = Array.isArray(result.evidence) ? result.evidence : [];
  const isObject = outputs && typeof outputs === "object" && !Array.isArray(outputs);
  const fields = isObject && !("$body" in outputs) && !("$json" in outputs) ? outputs : null;
  const names = [...new Set([...Object.keys(fields ?? {}), ...Object.keys(sample?.expected ?? {})])];
  const hasEvidence = run.ending !== "failed" || evidence.length > 0;
  const itemsOf = (name) => evidence.filter((item) => item && fieldOf(item.path) === name);
  const rows = names.map((name) =>
    h(
      "tr",
      { "data-field": name },
      h("th", { scope: "row" }, shown(name)),
      h(
        "td",
        { class: `answer-value ${isUnsupported(itemsOf(name)) ? "unsupported" : ""}` },
        fields && Object.hasOwn(fields, name)
          ? [valueOf(source, model.id, fields[name]), copyButton(() => wholeText(source, model.id, fields[name]))]
          : h("span", { class: "muted" }, "–"),
      ),
      sample && expectedCell(sample, name),
      hasEvidence && h("td", { class: "answer-evidence" }, evidenceOf(model, itemsOf(name), submitted)),
    ),
  );
  const head =
    sample &&
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ["", "Answer", "Expected", hasEvidence && "Evidence"]
          .filter((title) => title !== false)
          .map((title) => h("th", { scope: "col" }, title)),
      ),
    );
  return h(
    "section",
    { class: "card answer-card", "aria-label": "Answer" },
    h(
      "div",
      { class: "card-head" },
      h("h2", {}, run.ending === "failed" && outputs ? "Partial answer" : "Answer"),
      run.ending === "extracted" &&
        h("span", { class: "confidence-note" }, `extracted, ${result.trust ?? `confidence ${score(run.confidence)}`}`),
      submitted && result.trust && h("span", { class: "confidence-note" }, `submitted, ${result.trust}`),
    ),
    sample && sampleLine(sample),
    run.reason && h("p", { class: `reason ${run.ending}` }, shown(run.reason)),
    rows.length
      ? h("table", { class: `answers ${sample ? "with-expected" : ""}` }, head, h("tbody", {}, rows))
      : outputs !== undefined && outputs !== null
        ? valueOf(source, model.id, outputs)
        : h("p", { class: "muted" }, NO_ANSWER[run.ending] ?? "There is no answer."),
    result.extraction_notes &&
      h("p", { class: "notes" }, h("b", {}, "Notes of the extraction "), valueOf(source, model.id, result.extraction_notes)),
    result.notes && h("p", { class: "notes" }, h("b", {}, "Notes "), valueOf(source, model.id, result.notes)),
    result.agreement && agreementPart(result.agreement),
  );
}
