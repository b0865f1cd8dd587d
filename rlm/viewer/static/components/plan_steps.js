// The steps of a run with plans: candidates, what each was rejected for, escalations and who answered.

import { h } from "../lib/dom.js";
import { seconds } from "../lib/format.js";
import { facts, figures, section } from "./sections.js";
import { isReference } from "../lib/data_source.js";
import { line, shown } from "../lib/untrusted_text.js";
import { valueOf } from "./value_view.js";

const LETS_PASS = {
  thresholds: "it meets the thresholds",
  operator: "an operator let it pass",
  timeout: "the default, nobody answered in time",
};

const KINDS = {
  plans_compared: (data) => ["≡", "start", `Plans, round ${data.round}`, names(data)],
  plan_selected: (data) => ["▸", "waiting", `Plan ${data.rank} is run`, text(data.plan?.name)],
  plan_rejected: (data) => ["✗", "bad", `Plan ${data.rank} rejected`, text(data.name)],
  plan_escalated: (data) => ["!", "warn", "Escalated", text(data.escalation_reason)],
  operator_awaited: (data) => ["…", "waiting", "Waiting for an operator", `at most ${seconds(data.timeout)}`],
  escalation_answered: (data) => ["?", "attempt", `Answer: ${text(data.answer)}`, `by ${text(data.answered_by)}`],
  plan_answered: (data) => ["✓", "good", "Plan accepted", text(data.name) || LETS_PASS[data.accepted_by] || ""],
};

export function isPlanStep(kind) {
  return Object.hasOwn(KINDS, kind);
}

// Mark, kind, title and a line below it, for the list of steps.
export function planRow(step) {
  return KINDS[step.kind](step.data);
}

export function planDetail(source, model, step) {
  const { data, kind } = step;
  const [, , title] = planRow(step);
  return h(
    "div",
    { class: "detail" },
    h(
      "div",
      { class: "detail-head" },
      h("h2", {}, shown(title)),
      figures(["after", seconds(step.time - model.begin)], data.run_id ? ["run", link(data.run_id)] : null),
    ),
    ...parts(source, model.id, kind, data),
  );
}

function parts(source, id, kind, data) {
  if (kind === "plans_compared") {
    const rows = (data.candidates ?? []).map((one) => [
      String(one.rank),
      Number(one.score).toFixed(2),
      line(one.name, 80),
      valueOf(source, id, one.approach),
    ]);
    return [
      section("Candidates, best first", table(["", "score", "plan", "approach"], rows)),
      section("Left out", data.dropped?.length ? valueOf(source, id, data.dropped) : null),
      section("Weights", facts(source, id, data.weights)),
    ];
  }
  if (kind === "plan_selected")
    return [
      section("Plan", facts(source, id, { name: data.plan?.name, ...data.plan, plan_id: null })),
      section("Limits", facts(source, id, data.limits)),
    ];
  if (kind === "plan_rejected") {
    const rows = (data.failed_thresholds ?? []).map((one) => [
      line(one.metric, 60),
      valueOf(source, id, one.threshold),
      valueOf(source, id, one.actual),
    ]);
    return [section("What it did not meet", table(["metric", "wanted", "was"], rows))];
  }
  if (kind === "plan_answered")
    return [
      section("Plan", facts(source, id, { name: data.name, approach: data.approach })),
      section("Accepted", h("p", {}, LETS_PASS[data.accepted_by] ?? "")),
    ];
  return [section("On record", facts(source, id, data))];
}

function table(titles, rows) {
  const head = titles.map((one) => h("th", { scope: "col" }, one));
  const body = rows.map((cells) => {
    const made = cells.map((one) => h("td", {}, one));
    return h("tr", {}, made);
  });
  return h("table", { class: "plans" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body));
}

function link(run) {
  return h("a", { href: `#/run/${run}` }, h("code", {}, line(run, 20)));
}

function names(data) {
  return (data.candidates ?? []).map((one) => text(one.name)).join(" · ");
}

function text(value) {
  return String((isReference(value) ? value.head : value) ?? "");
}
