// The list of runs: searched, filtered, sorted; two of them chosen to be compared.

import { ENDINGS } from "./badge.js";
import { CHOICES } from "./choices.js";
import { debounce, h } from "./dom.js";
import { count, plural } from "./format.js";
import { replaced, reader, words } from "./query.js";
import { runRow } from "./row.js";
import { line } from "./text.js";
import { WindowedList } from "./window.js";

const SORTS = {
  started: ["Run", (run) => run.started],
  ending: ["Ending", (run) => ENDINGS.indexOf(run.ending)],
  confidence: ["Conf.", (run) => run.confidence ?? -1],
  answer: ["Answer or reason", null],
  iterations: ["Iter.", (run) => run.iterations_used],
  tokens: ["Tokens", (run) => run.tokens],
  cost: ["Cost", (run) => run.cost_usd ?? -1],
  duration: ["Time", (run) => run.duration],
};
const narrow = matchMedia("(max-width: 760px)");

export class RunsPage {
  title = "Runs";

  constructor({ source, go, chosen, query }) {
    this.source = source;
    this.go = go;
    this.chosen = chosen;
    this.all = [];
    this.sort = query.get("sort") ?? "started";
    this.down = query.get("up") !== "1";
    this.children = query.get("all") === "1";
    this.input = h("input", {
      type: "search",
      id: "search",
      placeholder: "Search, or cost>0.01, duration>1m, ending:failed…",
      "aria-label": "Search runs",
      autocomplete: "off",
      spellcheck: "false",
      on: { input: debounce(() => this.show(true), 60) },
    });
    this.input.value = query.get("q") ?? "";
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Ending" });
    this.selects = h("div", { class: "selects" });
    this.total = h("p", { class: "total", "aria-live": "polite" });
    this.head = h("div", { class: "runs-head run-row" });
    this.bar = h("div", { class: "compare-bar", hidden: true });
    this.list = new WindowedList({
      row: (run) => runRow(run, this),
      key: (run) => run.id,
      height: () => (narrow.matches ? 108 : 56),
      label: "Runs",
    });
    this.relayout = () => this.list.set(this.list.items);
    narrow.addEventListener("change", this.relayout);
    this.element = h(
      "main",
      { class: "runs-page" },
      h("div", { class: "tools" }, this.input, this.chips, this.selects),
      this.bar,
      this.total,
      h("div", { class: "card runs" }, this.head, this.list.element),
    );
  }

  async start() {
    await this.refresh();
    this.timer = setInterval(() => document.hidden || this.refresh().catch(() => {}), 2000);
  }

  close() {
    clearInterval(this.timer);
    narrow.removeEventListener("change", this.relayout);
    this.list.close();
  }

  async refresh() {
    const found = await this.source.runs();
    const text = JSON.stringify(found);
    if (text === this.before) return;
    this.before = text;
    this.all = found.runs;
    this.skipped = found.skipped;
    this.show(false);
  }

  show(typed) {
    const text = this.input.value;
    const meant = reader(text);
    const among = this.children ? this.all : this.all.filter((run) => !run.parent);
    const found = among.filter(meant);
    const by = SORTS[this.sort]?.[1] ?? SORTS.started[1];
    const sign = this.down ? -1 : 1;
    found.sort((a, b) => sign * (by(a) - by(b)) || b.started - a.started);
    const selected = this.list.items[this.list.selected]?.id;
    this.list.set(found);
    const at = found.findIndex((run) => run.id === selected);
    if (selected !== undefined) this.list.select(Math.max(0, at), { scroll: false });
    if (typed) this.list.element.scrollTop = 0;
    this.#chips(among, text);
    this.#selects(text);
    this.#head();
    this.#bar();
    this.total.replaceChildren(
      found.length === among.length
        ? plural(found.length, "run")
        : `${count(found.length)} of ${plural(among.length, "run")}`,
      ...(this.skipped?.length ? [" · not read: ", line(this.skipped.join("; "))] : []),
    );
    this.list.element.classList.toggle("empty", !found.length);
    this.list.element.dataset.empty = among.length
      ? "No run matches."
      : "No runs are on record yet. `rlm run task.yaml` makes one; it appears here while it runs.";
    if (typed) this.#remember();
  }

  #remember() {
    const kept = new URLSearchParams();
    if (this.input.value) kept.set("q", this.input.value);
    if (this.sort !== "started") kept.set("sort", this.sort);
    if (!this.down) kept.set("up", "1");
    if (this.children) kept.set("all", "1");
    history.replaceState(null, "", `#/${kept.size ? `?${kept}` : ""}`);
  }

  #chips(among, text) {
    const chosen =
      words(text)
        .find((one) => one.startsWith("ending:"))
        ?.slice(7)
        .split(",") ?? [];
    const chip = (ending) => {
      const on = chosen.includes(ending);
      const next = on ? chosen.filter((one) => one !== ending) : [...chosen, ending];
      const many = among.filter((run) => run.ending === ending).length;
      if (!many && !on) return null;
      return h(
        "button",
        {
          type: "button",
          class: `chip ${ending}`,
          "aria-pressed": String(on),
          "data-ending": ending,
          on: { click: () => this.#set("ending", next.length ? [`ending:${next.join(",")}`] : []) },
        },
        h("span", { class: "dot" }),
        ending,
        h("span", { class: "many" }, count(many)),
      );
    };
    const nested = this.all.some((run) => run.parent);
    const toggle =
      nested &&
      h(
        "button",
        {
          type: "button",
          class: "chip plain",
          "aria-pressed": String(this.children),
          on: {
            click: () => {
              this.children = !this.children;
              this.show(true);
            },
          },
        },
        "child runs",
      );
    this.chips.replaceChildren(...[...ENDINGS.map(chip), toggle].filter(Boolean));
  }

  #selects(text) {
    if (this.selects.contains(document.activeElement)) return;
    const present = words(text);
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
                this.#set(name, options[Number(event.target.value)]?.[1] ?? []);
              },
            },
          },
          options.map(([said], index) => h("option", { value: index }, index ? `${label}: ${said}` : label)),
        );
        const at = options.findIndex(([, wanted], index) => index && wanted.every((one) => present.includes(one)));
        select.value = String(Math.max(0, at));
        select.classList.toggle("set", at > 0);
        return select;
      }),
    );
  }

  #set(name, conditions) {
    this.input.value = replaced(this.input.value, name, conditions);
    this.show(true);
  }

  #head() {
    const cells = Object.entries(SORTS).map(([name, [label, by]]) => {
      const on = this.sort === name;
      return h(
        "span",
        { class: `cell ${name}`, "aria-sort": on ? (this.down ? "descending" : "ascending") : null },
        by
          ? h(
              "button",
              {
                type: "button",
                class: "sort",
                on: {
                  click: () => {
                    this.down = on ? !this.down : true;
                    this.sort = name;
                    this.show(true);
                  },
                },
              },
              label,
              h("span", { class: "arrow" }, on ? (this.down ? "↓" : "↑") : ""),
            )
          : label,
      );
    });
    this.head.replaceChildren(h("span", { class: "cell pick" }), ...cells);
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
    j: () => this.list.select(this.list.selected + 1),
    k: () => this.list.select(Math.max(0, this.list.selected - 1)),
    ArrowDown: () => this.list.select(this.list.selected + 1),
    ArrowUp: () => this.list.select(Math.max(0, this.list.selected - 1)),
    g: () => this.list.select(0),
    G: () => this.list.select(this.list.items.length - 1),
    Enter: () => {
      const run = this.list.items[this.list.selected];
      if (run) this.go(`#/run/${run.id}`);
    },
    x: () => {
      const run = this.list.items[this.list.selected];
      if (run) this.choose(run.id);
    },
    c: () => {
      const [one, other] = this.chosen;
      if (other) this.go(`#/compare/${one}/${other}`);
    },
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
