// The evaluations: a row for each log.

import { endingsBar } from "../components/group_row.js";
import { h } from "../lib/dom.js";
import { ago, clock, count, dollars, plural } from "../lib/format.js";
import { meter } from "../components/badge.js";
import { TablePage } from "./table_page.js";
import { line } from "../lib/untrusted_text.js";

const COLUMNS = {
  started: ["Evaluation", (row) => row.started],
  score: ["Score", (row) => row.score?.mean ?? -1],
  many: ["Samples", (row) => row.done ?? 0],
  endings: ["Endings", null],
  model: ["Models", (row) => row.model],
  cost: ["Cost", (row) => row.cost_usd ?? -1],
};

function address(row) {
  return `#/eval/${encodeURIComponent(row.name)}`;
}

function lowered(endings) {
  return Object.fromEntries(Object.entries(endings ?? {}).map(([name, many]) => [name.toLowerCase(), many]));
}

function evaluationRow(row, { open }) {
  const sub = row.problem ?? [row.started && ago(row.started), row.suites.join(", "), row.baseline && "no REPL"].filter(Boolean).join(" · ");
  return h(
    "div",
    { class: "eval-row", "data-evaluation": row.name, on: { click: () => open(row) } },
    h(
      "span",
      { class: "cell started" },
      h("a", { class: "name", href: address(row), on: { click: (event) => event.stopPropagation() } }, line(row.name, 80)),
      h("span", { class: `sub ${row.problem ? "bad" : ""}`, title: row.started ? clock(row.started) : "" }, line(sub, 200)),
    ),
    h(
      "span",
      { class: "cell score" },
      row.score ? [meter(row.score.mean), h("span", { class: "figure" }, row.score.mean.toFixed(2))] : h("span", { class: "none" }, "–"),
    ),
    h("span", { class: "cell many" }, row.problem ? "–" : `${count(row.done)} of ${count(row.total)}`),
    h("span", { class: "cell endings" }, endingsBar(lowered(row.endings))),
    h("span", { class: "cell model" }, line(row.model, 80)),
    h("span", { class: "cell cost" }, dollars(row.cost_usd)),
  );
}

export class EvaluationsPage extends TablePage {
  title = "Evaluations";

  constructor(common) {
    super(common, {
      columns: COLUMNS,
      first: "started",
      tie: (a, b) => a.name.localeCompare(b.name),
      load: (source) => source.evaluations(),
      row: evaluationRow,
      key: (row) => row.name,
      place: "#/evals",
      rowClass: "eval-row",
      label: "Evaluations",
      hint: "Search names, suites, models",
      chips: "Evaluations",
    });
    this.element = h(
      "main",
      { class: "runs-page" },
      h("h1", { class: "visually-hidden" }, "Evaluations"),
      h("div", { class: "tools" }, this.input),
      this.total,
      h("div", { class: "card runs" }, this.head, this.list.element),
    );
  }

  take({ evaluations }) {
    this.all = evaluations.map((row) => ({
      ...row,
      id: row.name,
      task: (row.suites ?? []).join(" "),
      model: [...new Set(Object.values(row.models ?? {}))].filter(Boolean).join(", "),
      started: typeof row.started === "string" ? Date.parse(row.started) / 1000 || 0 : (row.started ?? 0),
    }));
  }

  open = (row) => this.go(address(row));

  totals(matches, among) {
    return [matches === among ? plural(matches, "evaluation") : `${count(matches)} of ${plural(among, "evaluation")}`];
  }

  empty(among) {
    return among ? "No evaluation matches." : "There is no evaluation yet. `rlm eval run needle --model …` makes one.";
  }

  chipList() {
    return [];
  }
}
