// An evaluation: what its suites scored by length, and its samples as a table. A row opens the run's trace.

import { ENDINGS } from "./badge.js";
import { debounce, h } from "./dom.js";
import { count, dollars, length, plural, seconds, short } from "./format.js";
import { reader, replaced, words } from "./query.js";
import { sampleRow } from "./sample.js";
import { line } from "./text.js";
import { WindowedList } from "./window.js";

const SORTS = {
  sample: ["Sample", null],
  score: ["Score", (row) => row.score],
  ending: ["Ending", (row) => ENDINGS.indexOf(row.ending)],
  confidence: ["Conf.", (row) => row.confidence ?? -1],
  answer: ["Answer, and what was expected", null],
  tokens: ["Tokens", (row) => row.tokens],
  cost: ["Cost", (row) => row.cost_usd ?? -1],
  duration: ["Time", (row) => row.duration],
};
const TEXTS = ["Suite", "Endings"];
const narrow = matchMedia("(max-width: 760px)");

function estimate(one) {
  if (!one) return h("span", { class: "none" }, "–");
  const error = one.error === null ? null : h("span", { class: "muted" }, ` ±${one.error.toFixed(3)}`);
  return [h("b", {}, one.mean.toFixed(3)), error];
}

function endings(group) {
  return ["Submitted", "Extracted", "Failed"]
    .filter((name) => group.endings[name])
    .map((name) => `${count(group.endings[name])} ${name.toLowerCase()}`)
    .join(", ");
}

function groupRow(group, most) {
  const each = (value) => (value === null ? null : value / group.tries);
  const name = group.suite === null ? "all" : line(group.suite, 40);
  return h(
    "tr",
    { "data-suite": group.suite ?? "all", "data-length": group.length ?? "all" },
    h("th", { scope: "row" }, name),
    h("td", {}, group.length === null ? "" : length(group.length)),
    h("td", {}, count(group.samples)),
    h("td", { class: "mean" }, estimate(group.score)),
    h("td", {}, estimate(group.right)),
    most > 1 && h("td", {}, estimate(group.passes[most])),
    h("td", { class: "said" }, endings(group)),
    h("td", {}, short(each(group.tokens_in + group.tokens_out))),
    h("td", {}, dollars(each(group.cost_usd))),
    h("td", {}, seconds(each(group.seconds))),
  );
}

export class SuitePage {
  title = "Evaluation";

  constructor({ source, go, query }) {
    Object.assign(this, { source, go });
    this.rows = [];
    this.sort = query.get("sort") ?? "sample";
    this.down = query.get("up") !== "1";
    this.input = h("input", {
      type: "search",
      id: "search",
      placeholder: "Search, or score<1, length:64k, ending:failed, cost>0.01…",
      "aria-label": "Search samples",
      autocomplete: "off",
      spellcheck: "false",
      on: { input: debounce(() => this.show(true), 60) },
    });
    this.input.value = query.get("q") ?? "";
    this.about = h("div", { class: "card suite-about" });
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Which" });
    this.total = h("p", { class: "total", "aria-live": "polite" });
    this.head = h("div", { class: "runs-head sample-row" });
    this.list = new WindowedList({
      row: (row) => sampleRow(row, this),
      key: (row) => `${row.sample} ${row.epoch}`,
      height: () => (narrow.matches ? 108 : 56),
      label: "Samples",
    });
    this.relayout = () => this.list.set(this.list.items);
    narrow.addEventListener("change", this.relayout);
    this.element = h(
      "main",
      { class: "runs-page suite-page" },
      this.about,
      h("div", { class: "tools" }, this.input, this.chips),
      this.total,
      h("div", { class: "card runs samples" }, this.head, this.list.element),
    );
  }

  async start() {
    await this.refresh();
    let ticks = 0;
    this.timer = setInterval(() => {
      ticks += 1;
      const finished = this.rows.length >= this.found.total; // it may still be tried again, but there is no hurry
      if (!document.hidden && (!finished || ticks % 5 === 0)) this.refresh().catch(() => {});
    }, 2000);
  }

  close() {
    clearInterval(this.timer);
    narrow.removeEventListener("change", this.relayout);
    this.list.close();
  }

  async refresh() {
    const found = await this.source.evaluation();
    const text = JSON.stringify(found);
    if (text === this.before) return;
    this.before = text;
    this.found = found;
    this.title = found.name;
    this.rows = found.rows.map((row, at) => ({ ...row, at }));
    this.#about();
    this.show(false);
  }

  show(typed) {
    const meant = reader(this.input.value);
    const kept = this.rows.filter(meant);
    const by = SORTS[this.sort]?.[1];
    const sign = this.down ? -1 : 1;
    kept.sort((a, b) => (by ? sign * (by(a) - by(b)) : 0) || a.at - b.at);
    const selected = this.list.items[this.list.selected]?.at;
    this.list.set(kept);
    const at = kept.findIndex((row) => row.at === selected);
    if (selected !== undefined) this.list.select(Math.max(0, at), { scroll: false });
    if (typed) this.list.element.scrollTop = 0;
    this.#chips();
    this.#head();
    const all = `${plural(this.rows.length, "run")} of ${count(this.found.total)}`;
    this.total.replaceChildren(kept.length === this.rows.length ? all : `${count(kept.length)} of ${all}`);
    this.list.element.classList.toggle("empty", !kept.length);
    this.list.element.dataset.empty = this.rows.length ? "No sample matches." : "No sample is finished yet.";
    if (typed) this.#remember();
  }

  #remember() {
    const kept = new URLSearchParams();
    if (this.input.value) kept.set("q", this.input.value);
    if (this.sort !== "sample") kept.set("sort", this.sort);
    if (!this.down) kept.set("up", "1");
    history.replaceState(null, "", `#/eval${kept.size ? `?${kept}` : ""}`);
  }

  #about() {
    const { about, summary, name } = this.found;
    const models = [...new Set(Object.values(about.models ?? {}))].join(", ");
    const groups = [...summary.groups, ...(summary.groups.length > 1 ? [summary.all] : [])];
    const most = Math.max(1, ...groups.flatMap((group) => Object.keys(group.passes).map(Number)));
    const parts = [models, about.baseline && `${about.baseline} prompting, no REPL`, `seed ${about.seed}`];
    const heads = ["Suite", "Length", "Samples", "Score", "All right", most > 1 && `pass^${most}`, "Endings"];
    heads.push("Tokens", "Cost", "Time");
    this.about.replaceChildren(
      h("h1", {}, line(name, 80)),
      h("p", { class: "muted" }, line(parts.filter(Boolean).join(" · "), 200)),
      groups.length
        ? h(
            "div",
            { class: "suite-scroll" },
            h(
              "table",
              { class: "suite-groups" },
              h(
                "thead",
                {},
                h(
                  "tr",
                  {},
                  heads.filter(Boolean).map((one) => h("th", { scope: "col", class: TEXTS.includes(one) && "said" }, one)),
                ),
              ),
              h(
                "tbody",
                {},
                groups.map((group) => groupRow(group, most)),
              ),
            ),
          )
        : "",
    );
  }

  #chips() {
    const present = words(this.input.value);
    const chip = (name, said, condition, among, kind = "plain") => {
      const on = present.includes(condition);
      const many = this.rows.filter(among).length;
      if (!many && !on) return null;
      return h(
        "button",
        {
          type: "button",
          class: `chip ${kind}`,
          "aria-pressed": String(on),
          "data-chip": condition,
          on: {
            click: () => {
              this.input.value = replaced(this.input.value, name, on ? [] : [condition]);
              this.show(true);
            },
          },
        },
        kind !== "plain" && h("span", { class: "dot" }),
        said,
        h("span", { class: "many" }, count(many)),
      );
    };
    const made = ENDINGS.map((one) => chip("ending", one, `ending:${one}`, (row) => row.ending === one, one));
    made.unshift(chip("score", "not right", "score<1", (row) => row.score < 1));
    this.chips.replaceChildren(...made.filter(Boolean));
  }

  #head() {
    const cells = Object.entries(SORTS).map(([name, [label, by]]) => {
      const on = this.sort === name;
      const click = () => {
        this.down = on ? !this.down : true;
        this.sort = name;
        this.show(true);
      };
      return h(
        "span",
        { class: `cell ${name}`, "aria-sort": on && by ? (this.down ? "descending" : "ascending") : null },
        by
          ? h(
              "button",
              { type: "button", class: "sort", on: { click } },
              label,
              h("span", { class: "arrow" }, on ? (this.down ? "↓" : "↑") : ""),
            )
          : label,
      );
    });
    this.head.replaceChildren(...cells);
  }

  #open() {
    const row = this.list.items[this.list.selected];
    if (row?.id) this.go(`#/run/${encodeURIComponent(row.id)}`);
  }

  keys = {
    j: () => this.list.select(this.list.selected + 1),
    k: () => this.list.select(Math.max(0, this.list.selected - 1)),
    ArrowDown: () => this.list.select(this.list.selected + 1),
    ArrowUp: () => this.list.select(Math.max(0, this.list.selected - 1)),
    g: () => this.list.select(0),
    G: () => this.list.select(this.list.items.length - 1),
    Enter: () => this.#open(),
    "/": () => {
      this.input.focus();
      this.input.select();
    },
    Escape: () => {
      if (this.input.value) {
        this.input.value = "";
        this.show(true);
      } else this.list.select(-1);
    },
  };
}
