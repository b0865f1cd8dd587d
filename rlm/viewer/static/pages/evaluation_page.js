// An evaluation: scores by suite and length, and its samples as a table. A row opens the run of a sample.

import { calibrationChart } from "../components/calibration_chart.js";
import { ENDINGS } from "../components/badge.js";
import { h } from "../lib/dom.js";
import { count, dollars, length, plural, seconds, short } from "../lib/format.js";
import { words } from "../lib/search_query.js";
import { sampleRow } from "../components/sample_row.js";
import { TablePage } from "./table_page.js";
import { line } from "../lib/untrusted_text.js";

const COLUMNS = {
  sample: ["Sample", null],
  score: ["Score", (row) => row.score],
  ending: ["Ending", (row) => ENDINGS.indexOf(row.ending)],
  confidence: ["Conf.", (row) => row.confidence ?? -1],
  answer: ["Answer and expected answer", null],
  tokens: ["Tokens", (row) => row.tokens],
  cost: ["Cost", (row) => row.cost_usd ?? -1],
  duration: ["Time", (row) => row.duration],
};

function estimate(value) {
  if (!value) return h("span", { class: "none" }, "–");
  const error = value.error === null ? null : h("span", { class: "muted" }, ` ±${value.error.toFixed(3)}`);
  return h("span", {}, h("b", {}, value.mean.toFixed(3)), error);
}

function endings(group) {
  return ["Submitted", "Extracted", "Failed"]
    .filter((name) => group.endings[name])
    .map((name) => `${count(group.endings[name])} ${name.toLowerCase()}`)
    .join(", ");
}

// The columns of the summary; `most` is the number of epochs.
function groupColumns(most) {
  const each = (group, value) => (value === null ? null : value / group.tries);
  return [
    ["Length", (group) => (group.length === null ? "" : length(group.length))],
    ["Samples", (group) => count(group.samples)],
    ["Score", (group) => estimate(group.score), "mean estimate"],
    ["All right", (group) => estimate(group.right), "estimate"],
    ...(most > 1 ? [[`pass^${most}`, (group) => estimate(group.passes[most]), "estimate"]] : []),
    ["Endings", endings, "text"],
    ["Tokens", (group) => short(each(group, group.tokens_in + group.tokens_out))],
    ["Cost", (group) => dollars(each(group, group.cost_usd))],
    ["Time", (group) => seconds(each(group, group.seconds))],
  ];
}

function groupTable(groups, most) {
  const columns = groupColumns(most);
  const head = (label, kind) => h("th", { scope: "col", class: kind === "text" && "text" }, label);
  const row = (group) =>
    h(
      "tr",
      { "data-suite": group.suite ?? "all", "data-length": group.length ?? "all" },
      h("th", { scope: "row" }, group.suite === null ? "all" : line(group.suite, 40)),
      columns.map(([label, value, kind]) => h("td", { class: kind, "data-label": label }, value(group))),
    );
  return h(
    "table",
    { class: "suite-groups" },
    h("thead", {}, h("tr", {}, head("Suite", "text"), columns.map(([label, , kind]) => head(label, kind)))),
    h("tbody", {}, groups.map(row)),
  );
}

export class EvaluationPage extends TablePage {
  title = "Evaluation";

  // `id` is the name of a log; without it, the page is of the log that the server was started with.
  constructor(common) {
    const { id } = common;
    super(common, {
      columns: COLUMNS,
      first: "sample",
      tie: (a, b) => a.at - b.at,
      load: (source) => source.evaluation(id),
      row: sampleRow,
      key: (row) => row.at,
      place: id ? `#/eval/${encodeURIComponent(id)}` : "#/eval",
      rowClass: "sample-row",
      label: "Samples",
      hint: "Search, or score<1, length:64k…",
      chips: "Which",
    });
    this.about = h("div", { class: "card suite-about" });
    this.element = h(
      "main",
      { class: "runs-page suite-page" },
      this.about,
      h("div", { class: "tools" }, this.input, this.chips),
      this.total,
      h("div", { class: "card runs samples" }, this.head, this.list.element),
    );
  }

  // A finished evaluation is still polled, less often: samples can be retried.
  due(ticks) {
    return this.all.length < this.table.total || ticks % 5 === 0;
  }

  take(table) {
    this.table = table;
    this.title = table.name;
    this.all = table.rows.map((row, at) => ({ ...row, at }));
    this.#about();
  }

  open(row) {
    if (row.id) this.go(`#/run/${encodeURIComponent(row.id)}`);
  }

  totals(matches, among) {
    const all = `${plural(among, "run")} of ${count(this.table.total)}`;
    return [matches === among ? all : `${count(matches)} of ${all}`];
  }

  empty(among) {
    return among ? "No sample matches." : "No sample is finished yet.";
  }

  #about() {
    const { about, summary, name } = this.table;
    const models = [...new Set(Object.values(about.models ?? {}))].join(", ");
    const groups = [...summary.groups, ...(summary.groups.length > 1 ? [summary.all] : [])];
    const most = Math.max(1, ...groups.flatMap((group) => Object.keys(group.passes).map(Number)));
    const parts = [models, about.baseline && `${about.baseline} prompting, no REPL`, `seed ${about.seed}`];
    this.about.replaceChildren(
      h("h1", {}, line(name, 80)),
      h("p", { class: "muted" }, line(parts.filter(Boolean).join(" · "), 200)),
      groups.length ? h("div", { class: "suite-scroll" }, groupTable(groups, most)) : "",
      calibrationChart(this.all) ?? "",
    );
  }

  chipList(among) {
    const present = words(this.input.value);
    const chip = (name, label, condition, test, kind) => {
      const on = present.includes(condition);
      return this.chip(label, {
        on,
        kind,
        many: among.filter(test).length,
        "data-chip": condition,
        click: () => this.set(name, on ? [] : [condition]),
      });
    };
    return [
      chip("score", "not right", "score<1", (row) => row.score < 1),
      ...ENDINGS.map((name) => chip("ending", name, `ending:${name}`, (row) => row.ending === name, name)),
    ];
  }
}
