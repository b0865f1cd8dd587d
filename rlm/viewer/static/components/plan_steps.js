// The steps of a run with plans: candidates, rejections with their reasons, escalations and their answers.

import { fold } from "./text_block.js";
import { h } from "../lib/dom.js";
import { seconds } from "../lib/format.js";
import { facts, figures, section } from "./sections.js";
import { isReference } from "../lib/data_source.js";
import { line, shown } from "../lib/untrusted_text.js";
import { valueOf } from "./value_view.js";

const ACCEPTED_BY = {
  thresholds: "It meets the thresholds.",
  operator: "An operator approved it.",
  timeout: "It is the default: nobody answered in time.",
};

const RECOMMENDED = {
  operator_review_required: "an operator has to review the rejected plans",
};

const KINDS = {
  plans_compared: (data) => ["≡", "start", `Plans, round ${data.round}`, names(data)],
  plan_selected: (data) => ["▸", "waiting", `Plan ${data.rank} is run`, text(data.plan?.name)],
  plan_rejected: (data) => ["✗", "bad", `Plan ${data.rank} rejected`, text(data.name)],
  plan_escalated: (data) => ["!", "warn", "Escalated", text(data.escalation_reason)],
  operator_awaited: (data) => ["…", "waiting", "Waiting for an operator", `at most ${seconds(data.timeout)}`],
  escalation_answered: (data) => ["?", "attempt", `Answer: ${text(data.answer)}`, data.answered_by === "timeout" ? "nobody answered in time" : `by ${text(data.answered_by)}`],
  plan_answered: (data) => ["✓", "good", "Plan accepted", text(data.name) || ACCEPTED_BY[data.accepted_by] || ""],
};

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
    ...parts(source, model.id, kind, data, model.plans).filter(Boolean),
  );
}

function parts(source, id, kind, data, plans) {
  switch (kind) {
    case "plans_compared": {
      const rows = (data.candidates ?? []).map((plan) => [
        String(plan.rank),
        Number(plan.score).toFixed(2),
        line(plan.name, 80),
        valueOf(source, id, plan.approach),
      ]);
      return [
        section("Candidates, best first", table(["Rank", "Score", "Plan", "Approach"], rows)),
        section("Dropped", data.dropped?.length ? valueOf(source, id, data.dropped) : null),
        section("Weights", facts(source, id, data.weights)),
      ];
    }
    case "plan_selected":
      return [
        section("Plan", facts(source, id, { name: data.plan?.name, ...data.plan, plan_id: null })),
        section("Limits", facts(source, id, data.limits)),
      ];
    case "plan_rejected": {
      const rows = (data.failed_thresholds ?? []).map((failed) => [
        line(failed.metric, 60),
        valueOf(source, id, failed.threshold),
        valueOf(source, id, failed.actual),
      ]);
      return [section("Thresholds that it failed", table(["Metric", "Threshold", "Actual"], rows))];
    }
    case "plan_answered":
      return [
        section("Plan", facts(source, id, { name: data.name, approach: data.approach })),
        section("Accepted", h("p", {}, ACCEPTED_BY[data.accepted_by] ?? "")),
      ];
    case "plan_escalated":
      return [
        section("Reason", h("p", { class: "lead" }, valueOf(source, id, data.escalation_reason))),
        section("Rejected plans", rejectedPlans(source, id, data, plans)),
        section("Failed thresholds", facts(source, id, data.governance_summary?.failed_thresholds)),
        section("Fallback", valueOf(source, id, data.fallback_details)),
        section("Recommended", h("p", {}, line(RECOMMENDED[data.recommended_action] ?? data.recommended_action, 120))),
        identifiers(source, id, data),
      ];
    case "escalation_answered":
      return [
        section("Answer", facts(source, id, { answer: data.answer, note: data.note, outputs: data.outputs })),
        identifiers(source, id, data),
      ];
    default:
      return [
        section("Recorded", facts(source, id, withoutIdentifiers(data))),
        identifiers(source, id, data),
      ];
  }
}

function rejectedPlans(source, id, data, plans) {
  const ids = new Set(data.rejected_plan_ids ?? []);
  const rows = plans
    .filter((step) => step.kind === "plan_rejected" && ids.has(step.data.plan_id))
    .map(({ data: plan }) => [
      String(plan.rank),
      line(text(plan.name), 80),
      valueOf(source, id, (plan.failed_thresholds ?? []).map((failed) => text(failed.threshold) || text(failed.metric))),
      plan.run_id ? link(plan.run_id) : "–",
    ]);
  return rows.length ? table(["Rank", "Plan", "Failed", "Run"], rows) : null;
}

function isIdentifier(name) {
  return /_ids?$/.test(name) || name === "timestamp";
}

function withoutIdentifiers(data) {
  return Object.fromEntries(Object.entries(data).filter(([name]) => !isIdentifier(name)));
}

function identifiers(source, id, data) {
  const known = Object.fromEntries(Object.entries(data).filter(([name]) => isIdentifier(name)));
  return fold("Identifiers", () => facts(source, id, known));
}

function table(titles, rows) {
  const head = titles.map((title) => h("th", { scope: "col" }, title));
  const body = rows.map((cells) =>
    h(
      "tr",
      {},
      cells.map((cell) => h("td", {}, cell)),
    ),
  );
  return h(
    "div",
    { class: "scroll" },
    h("table", { class: "plans" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)),
  );
}

function link(run) {
  return h("a", { href: `#/run/${run}` }, h("code", {}, line(run, 20)));
}

function names(data) {
  return (data.candidates ?? []).map((plan) => text(plan.name)).join(" · ");
}

function text(value) {
  return String((isReference(value) ? value.head : value) ?? "");
}
