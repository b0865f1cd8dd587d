// The list of runs: search, filters, sorting, and the choice of two runs to compare.

import { ENDINGS } from "../components/badge.js";
import { CHOICES, groupMenu } from "../components/filter_menus.js";
import { h } from "../lib/dom.js";
import { count, plural } from "../lib/format.js";
import { dayOf } from "../lib/run_groups.js";
import { words } from "../lib/search_query.js";
import { runRow } from "../components/run_row.js";
import { TablePage } from "./table_page.js";
import { line } from "../lib/untrusted_text.js";

const COLUMNS = {
  pick: ["", null],
  started: ["Run", (run) => run.started],
  ending: ["Ending", (run) => ENDINGS.indexOf(run.ending)],
  confidence: ["Conf.", (run) => run.confidence ?? -1],
  answer: ["Answer or reason", null],
  model: ["Model", (run) => run.model ?? ""],
  iterations: ["Iter.", (run) => run.iterations_used],
  tokens: ["Tokens", (run) => run.tokens],
  cost: ["Cost", (run) => run.cost_usd ?? -1],
  duration: ["Time", (run) => run.duration],
};

export class RunsPage extends TablePage {
  title = "Runs";

  constructor(common) {
    super(common, {
      columns: COLUMNS,
      first: "started",
      tie: (a, b) => b.started - a.started,
      load: (source) => source.runs(),
      row: runRow,
      key: (run) => run.id,
      place: "#/",
      rowClass: "run-row",
      label: "Runs",
      hint: "Search, or ending:failed, cost>0.01…",
      chips: "Ending",
    });
    this.chosen = common.chosen;
    this.children = common.query.get("all") === "1";
    this.selects = h("div", { class: "selects" });
    this.bar = h("div", { class: "compare-bar", hidden: true });
    this.element = h(
      "main",
      { class: "runs-page" },
      h("div", { class: "tools" }, this.input, this.chips, this.selects),
      this.bar,
      this.total,
      h("div", { class: "card runs" }, this.head, this.list.element),
    );
  }

  take({ runs, skipped }) {
    this.all = runs.map((run) => ({ ...run, day: dayOf(run), label: (run.labels ?? []).join(", ") }));
    this.skipped = skipped;
  }

  get among() {
    return this.children ? this.all : this.all.filter((run) => !run.parent);
  }

  open(run) {
    this.go(`#/run/${run.id}`);
  }

  show(typed) {
    super.show(typed);
    this.#selects();
    this.#bar();
  }

  totals(matches, among) {
    const text = matches === among ? plural(matches, "run") : `${count(matches)} of ${plural(among, "run")}`;
    return [text, ...(this.skipped?.length ? [" · not read: ", line(this.skipped.join("; "))] : [])];
  }

  empty(among) {
    return among
      ? "No run matches."
      : "No runs are recorded yet. `rlm run task.yaml` starts one; it appears here while it runs.";
  }

  parameters() {
    const parameters = super.parameters();
    if (this.children) parameters.set("all", "1");
    return parameters;
  }

  chipList(among) {
    const condition = words(this.input.value).find((word) => word.startsWith("ending:"));
    const chosen = condition?.slice(7).split(",") ?? [];
    const chip = (ending) => {
      const on = chosen.includes(ending);
      const next = on ? chosen.filter((name) => name !== ending) : [...chosen, ending];
      return this.chip(ending, {
        on,
        kind: ending,
        many: among.filter((run) => run.ending === ending).length,
        "data-ending": ending,
        click: () => this.set("ending", next.length ? [`ending:${next.join(",")}`] : []),
      });
    };
    const click = () => {
      this.children = !this.children;
      this.show(true);
    };
    const nested = this.all.some((run) => run.parent);
    return [...ENDINGS.map(chip), nested && this.chip("child runs", { on: this.children, click })];
  }

  #selects() {
    if (this.selects.contains(document.activeElement)) return;
    const present = words(this.input.value);
    this.selects.replaceChildren(
      ...CHOICES.map(([name, label, options]) => {
        const select = h(
          "select",
          {
            "aria-label": label,
            "data-name": name,
            on: {
              change: (event) => {
                event.target.blur();
                this.set(name, options[Number(event.target.value)]?.[1] ?? []);
              },
            },
          },
          options.map(([choice], index) => h("option", { value: index }, index ? `${label}: ${choice}` : label)),
        );
        const at = options.findIndex(([, conditions], index) => index && conditions.every((word) => present.includes(word)));
        select.value = String(Math.max(0, at));
        select.classList.toggle("set", at > 0);
        return select;
      }),
      groupMenu("", (by) => {
        const query = this.input.value ? `?q=${encodeURIComponent(this.input.value)}` : "";
        this.go(`#/groups/${by}${query}`);
      }),
    );
  }

  #bar() {
    const ids = [...this.chosen];
    this.bar.hidden = !ids.length;
    if (!ids.length) return;
    const compare = h(
      "a",
      {
        class: `button ${ids.length === 2 ? "main" : "off"}`,
        href: ids.length === 2 ? `#/compare/${ids[0]}/${ids[1]}` : "#/",
        "aria-disabled": String(ids.length !== 2),
      },
      "Compare",
    );
    this.bar.replaceChildren(
      h("span", {}, ids.length === 2 ? "Two runs chosen: " : "One run chosen; choose another to compare it with: "),
      ...ids.flatMap((id) => [h("code", {}, id), " "]),
      compare,
      h(
        "button",
        {
          type: "button",
          class: "button",
          on: {
            click: () => {
              this.chosen.clear();
              this.show(false);
            },
          },
        },
        "Clear",
      ),
    );
  }

  choose = (id) => {
    if (this.chosen.has(id)) this.chosen.delete(id);
    else {
      if (this.chosen.size === 2) this.chosen.delete([...this.chosen][0]);
      this.chosen.add(id);
    }
    this.show(false);
  };

  keys = {
    ...this.keys,
    x: () => this.selected && this.choose(this.selected.id),
    c: () => {
      const [first, second] = this.chosen;
      if (second) this.go(`#/compare/${first}/${second}`);
    },
  };
}
