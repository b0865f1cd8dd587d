// Two runs side by side: settings, results, and the iteration at which they diverge.

import { fold } from "../components/text_block.js";
import { h } from "../lib/dom.js";
import { clock, count, dollars, score, plural, seconds, titleOf } from "../lib/format.js";
import { RunModel } from "../lib/run_model.js";
import { badge } from "../components/badge.js";
import { moreButton } from "../components/more_button.js";
import { diffed } from "../components/side_by_side.js";
import { textOf } from "../lib/data_source.js";
import { line } from "../lib/untrusted_text.js";
import { valueOf } from "../components/value_view.js";

const PAGE = 40;
const SAY = { confidence: score, cost_usd: dollars, duration: seconds, tokens: count };

export class ComparePage {
  title = "Compare";

  constructor({ source, go, first, second }) {
    Object.assign(this, { source, go, ids: [first, second] });
    this.element = h("main", { class: "compare-page" }, h("p", { class: "muted loading" }, "…"));
  }

  async start() {
    const [difference, ...models] = await Promise.all([
      this.source.compare(...this.ids),
      ...this.ids.map((id) => this.#load(id)),
    ]);
    this.difference = difference;
    this.models = models;
    const parted = difference.diverged_at;
    this.element.replaceChildren(
      h(
        "header",
        { class: "compare-head" },
        models.map((model) => this.#title(model)),
      ),
      h(
        "section",
        { class: "card" },
        h("div", { class: "card-head" }, h("h2", {}, "Outputs")),
        this.#table(difference.outputs, true),
      ),
      h(
        "section",
        { class: "card" },
        h("div", { class: "card-head" }, h("h2", {}, "Facts"), this.#toggle()),
        (this.facts = this.#table(difference.facts, false)),
      ),
      h(
        "section",
        { class: "card" },
        h(
          "div",
          { class: "card-head" },
          h("h2", {}, "Iterations"),
          h("span", { class: "muted" }, parted === null ? "the same in both" : `they diverge at iteration ${parted}`),
        ),
        this.#iterations(),
      ),
    );
  }

  close() {}

  async #load(id) {
    const [summary, first] = await Promise.all([this.source.summary(id), this.source.events(id, 0)]);
    const model = new RunModel(summary);
    model.add(first.events);
    return model;
  }

  #title(model) {
    const { run } = model;
    return h(
      "div",
      { class: "card side-title" },
      h(
        "div",
        { class: "run-title" },
        h("h1", {}, h("a", { href: `#/run/${run.id}` }, line(titleOf(run), 50))),
        badge(run.ending),
      ),
      h(
        "p",
        { class: "run-about" },
        h("span", {}, h("code", {}, run.id)),
        h("span", {}, clock(run.started)),
        h("span", {}, seconds(run.duration)),
      ),
    );
  }

  #table(facts, outputs) {
    const row = (fact) =>
      h(
        "tr",
        { class: fact.same ? "same" : "differs" },
        h("th", { scope: "row" }, line(outputs ? fact.name : fact.name.replaceAll("_", " "), 60)),
        [fact.first, fact.second].map((value, side) =>
          h(
            "td",
            {},
            SAY[fact.name] && value !== null
              ? SAY[fact.name](value)
              : value === null || value === undefined
                ? h("span", { class: "muted" }, "–")
                : valueOf(this.source, this.ids[side], value),
          ),
        ),
      );
    if (!facts.length) return h("p", { class: "muted" }, "There are none.");
    return h(
      "div",
      { class: "scroll" },
      h("table", { class: `sides ${outputs ? "" : "only-differences"}` }, h("tbody", {}, facts.map(row))),
    );
  }

  #toggle() {
    const same = this.difference.facts.filter((fact) => fact.same).length;
    const button = h(
      "button",
      { type: "button", class: "button small", "aria-pressed": "false" },
      `Show ${plural(same, "that is", "that are")} the same`,
    );
    button.addEventListener("click", () => {
      const table = this.facts.querySelector("table");
      const all = table.classList.toggle("only-differences");
      button.setAttribute("aria-pressed", String(!all));
      button.replaceChildren(all ? `Show ${plural(same, "that is", "that are")} the same` : "Show only differences");
    });
    return same ? button : null;
  }

  #iterations() {
    const list = h("div", { class: "pairs" });
    const add = (from) => {
      const page = this.difference.iterations.slice(from, from + PAGE);
      list.append(...page.map((pair) => this.#pair(pair)));
      if (from + PAGE < this.difference.iterations.length) {
        list.append(moreButton("Show more iterations", () => add(from + PAGE)));
      }
    };
    add(0);
    return list;
  }

  #pair(pair) {
    const state = pair.only_in
      ? `only in the ${pair.only_in}`
      : pair.same
        ? "same"
        : [pair.code && "code", pair.output && "output"].filter(Boolean).join(" and ") +
          " differ" +
          (pair.code && pair.output ? "" : "s");
    return fold(
      [
        h("b", {}, `Iteration ${pair.number}`),
        h("span", { class: `pair-state ${pair.same ? "same" : "differs"}` }, ` ${state}`),
      ],
      async () => {
        const sides = await Promise.all(this.models.map((model) => this.#texts(model, pair.number)));
        return [
          h("h3", {}, "Code"),
          diffed(sides[0]?.code, sides[1]?.code),
          h("h3", {}, "Output"),
          diffed(sides[0]?.output, sides[1]?.output),
        ];
      },
      { open: pair.number === this.difference.diverged_at, className: pair.same ? "pair" : "pair differs" },
    );
  }

  async #texts(model, number) {
    const iteration = model.byNumber.get(number);
    if (!iteration) return null;
    const events = await this.source.whole(model.id, [iteration.cell?.sequence, iteration.cell?.end]);
    const get = async (value) => (await textOf(this.source, model.id, value, 20000)).text;
    return {
      code: await get(events.get(iteration.cell?.sequence)?.code),
      output: await get(events.get(iteration.cell?.end)?.output),
    };
  }

  keys = { Escape: () => this.go("#/"), j: () => scrollBy({ top: 120 }), k: () => scrollBy({ top: -120 }) };
}
