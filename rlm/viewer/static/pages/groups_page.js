// Runs in groups: by task, model or day; the batches; the sessions; the runs with plans.

import { calibrationChart } from "../components/calibration_chart.js";
import { groupRow } from "../components/group_row.js";
import { groupMenu } from "../components/filter_menus.js";
import { h } from "../lib/dom.js";
import { count, plural } from "../lib/format.js";
import { GROUPINGS, dayOf, groupsOf, planGroups } from "../lib/run_groups.js";
import { TablePage } from "./table_page.js";

const COLUMNS = {
  started: ["Group", (group) => group.started],
  many: ["Runs", (group) => group.runs.length],
  endings: ["Endings", null],
  confidence: ["Mean conf.", (group) => group.confidence ?? -1],
  right: ["Right", (group) => group.right ?? -1],
  tokens: ["Tokens", (group) => group.tokens],
  cost: ["Cost", (group) => group.cost ?? -1],
  duration: ["Mean time", (group) => group.duration],
};

// What the runs of a group are called.
const MANY = { plans: "Plans", session: "Questions" };

const EMPTY = {
  batch: "No run of a batch is recorded yet. `rlm batch task.yaml items.csv -o answers.jsonl` runs one.",
  session: "No question of a session is recorded yet. `Predict(...).session(...)` begins one.",
  plans: "No run with plans is recorded yet. `plans:` in a task file has the runtime try several.",
};

export class GroupsPage extends TablePage {
  // `by` is a grouping or "plans"; `place` is the address of the page.
  constructor(common, { by, place, title, one }) {
    super(common, {
      columns: { ...COLUMNS, started: [one, COLUMNS.started[1]], ...(MANY[by] && { many: [MANY[by], COLUMNS.many[1]] }) },
      first: "started",
      tie: (a, b) => b.started - a.started,
      load: (source) => source.runs(),
      row: groupRow,
      key: (group) => group.key,
      place,
      rowClass: "group-row",
      label: title,
      hint: by === "plans" ? "Search" : "Search runs, or ending:failed…",
      chips: "Groups",
    });
    this.title = title;
    this.by = by;
    this.chart = h("div", { class: "chart-box" });
    const menu = ["task", "model", "day"].includes(by) ? groupMenu(by, (to) => this.go(to ? this.#grouped(to) : this.#list())) : null;
    this.element = h(
      "main",
      { class: "runs-page" },
      h("h1", { class: "visually-hidden" }, title),
      h("div", { class: "tools" }, this.input, menu && h("div", { class: "selects" }, menu)),
      this.total,
      this.chart,
      h("div", { class: "card runs" }, this.head, this.list.element),
    );
  }

  #query() {
    return this.input.value ? `?q=${encodeURIComponent(this.input.value)}` : "";
  }

  #grouped(by) {
    return `#/groups/${by}${this.#query()}`;
  }

  #list() {
    return `#/${this.#query()}`;
  }

  take({ runs }) {
    this.all = runs.map((run) => ({ ...run, day: dayOf(run), label: (run.labels ?? []).join(", ") }));
  }

  get among() {
    if (this.by === "plans") return planGroups(this.all).map((group) => ({ ...group.run, group }));
    const key = GROUPINGS[this.by].key;
    return this.all.filter((run) => !run.parent && key(run) !== null);
  }

  rowsOf(matches) {
    const groups = this.by === "plans" ? matches.map((row) => row.group) : groupsOf(matches, this.by);
    this.most = Math.max(0, ...groups.map((group) => group.cost ?? 0));
    const chart = calibrationChart(matches);
    this.chart.replaceChildren(...(chart ? [chart] : []));
    return groups;
  }

  address = (group) => {
    if (group.run) return `#/run/${group.run.id}`;
    return `#/?q=${encodeURIComponent([this.input.value, group.condition].filter(Boolean).join(" "))}`;
  };

  open = (group) => this.go(this.address(group));

  totals(matches, among) {
    const runs = matches === among ? plural(matches, "run") : `${count(matches)} of ${plural(among, "run")}`;
    return [runs, this.by === "plans" ? " with plans" : ` in ${plural(this.list.items.length, "group")}`];
  }

  empty(among) {
    return among ? "No run matches." : (EMPTY[this.by] ?? "No runs are recorded yet.");
  }

  chipList() {
    return [];
  }
}
