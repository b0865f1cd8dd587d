// The steps of a run beside the one that is looked at: a start, its plans or iterations, the trigger, attempts to extract.

import { attemptDetail, startDetail, triggerDetail } from "./step_details.js";
import { h } from "../lib/dom.js";
import { dollars, plural, seconds, short } from "../lib/format.js";
import { iterationDetail } from "./iteration_details.js";
import { cached, usedByIteration } from "../lib/run_model.js";
import { planDetail, planRow } from "./plan_steps.js";
import { line, shown } from "../lib/untrusted_text.js";
import { WindowedList } from "./windowed_list.js";
import { VariableLog } from "./variable_changes.js";

const HEIGHT = 54;

export class Steps {
  constructor({ source, model, go }) {
    this.source = source;
    this.model = model;
    this.go = go;
    this.variables = new VariableLog(source, model.id);
    this.list = new WindowedList({
      row: (step) => this.#row(step),
      key: (step) => step.key,
      height: () => HEIGHT,
      label: "Steps",
    });
    this.list.element.classList.add("rail");
    this.pane = h("article", { class: "pane card", tabindex: "-1", "aria-label": "Step" });
    this.where = h("span", { class: "where" });
    const button = (label, text, by) =>
      h(
        "button",
        { type: "button", class: "button small", "aria-label": label, on: { click: () => this.move(by) } },
        text,
      );
    this.stepper = h(
      "div",
      { class: "stepper" },
      button("Step before", "‹", -1),
      this.where,
      button("Next step", "›", 1),
    );
    this.element = h(
      "div",
      { class: "steps" },
      h("div", { class: "rail-box card" }, this.list.element),
      h("div", { class: "pane-box" }, this.stepper, this.pane),
    );
    this.shown = null;
    this.refresh();
  }

  close() {
    this.list.close();
  }

  // The steps as they are now. Returns whether there are new ones.
  refresh() {
    const { model } = this;
    const steps = [{ key: "start", kind: "start", title: "Start" }];
    for (const one of model.plans) steps.push({ key: `plan-${one.sequence}`, kind: "plan", one });
    for (const one of model.iterations) steps.push({ key: String(one.number), kind: "iteration", one });
    if (model.trigger) steps.push({ key: "trigger", kind: "trigger", title: "Trigger" });
    for (const one of model.attempts) steps.push({ key: `attempt-${one.number}`, kind: "attempt", one });
    const more = steps.length > this.list.items.length;
    const { selected } = this.list;
    this.list.set(steps);
    if (selected >= 0) this.list.select(selected, { scroll: false });
    return more;
  }

  get key() {
    return this.list.items[this.list.selected]?.key;
  }

  get atEnd() {
    return this.list.selected === this.list.items.length - 1;
  }

  move(by) {
    const at = Math.max(0, Math.min(this.list.items.length - 1, this.list.selected + by));
    const step = this.list.items[at];
    if (step) this.go(`#/run/${this.model.id}/${step.key}`);
  }

  jump(index) {
    this.move(index < 0 ? this.list.items.length : -this.list.items.length);
  }

  // Show one step; what was being loaded for another is forgotten.
  async show(key, { span = null, variable = null, focus = false } = {}) {
    const found = this.list.items.findIndex((step) => step.key === key);
    const at = found < 0 ? Math.min(1, this.list.items.length - 1) : found;
    this.list.select(at);
    const step = this.list.items[at];
    this.where.replaceChildren(`${at + 1} of ${this.list.items.length}`);
    const wanted = (this.wanted = Symbol(step.key));
    let made;
    try {
      made = await this.#detail(step, span, variable);
    } catch (error) {
      made = h("p", { class: "problem" }, shown(String(error.message ?? error)));
    }
    if (this.wanted !== wanted) return;
    const same = this.shown === step.key;
    const open = same ? [...this.pane.querySelectorAll("details")].map((one) => one.open) : [];
    this.pane.replaceChildren(made);
    if (same)
      [...this.pane.querySelectorAll("details")].forEach((one, index) => {
        if (open[index]) one.open = true;
      });
    this.shown = step.key;
    const mark = this.pane.querySelector("#evidence");
    if (mark) mark.scrollIntoView({ block: "center" });
    else if (focus) this.#bringIntoView();
  }

  #bringIntoView() {
    const { top } = this.element.getBoundingClientRect();
    if (top > innerHeight * 0.6 || top < -40) this.element.scrollIntoView({ block: "start" });
  }

  #detail(step, span, variable) {
    if (step.kind === "start") return startDetail(this.source, this.model);
    if (step.kind === "plan") return planDetail(this.source, this.model, step.one);
    if (step.kind === "trigger") return triggerDetail(this.source, this.model);
    if (step.kind === "attempt") return attemptDetail(this.source, this.model, step.one.number);
    return iterationDetail(this.source, this.model, step.one.number, { variables: this.variables, span, variable });
  }

  #row(step) {
    const href = `#/run/${this.model.id}/${step.key}`;
    const row = (mark, kind, title, sub) =>
      h(
        "a",
        { class: `step ${kind}`, href, "data-step": step.key },
        h("span", { class: "step-mark" }, mark),
        h(
          "span",
          { class: "step-text" },
          h("span", { class: "step-title" }, title),
          h("span", { class: "step-sub" }, sub),
        ),
      );
    if (step.kind === "start") return row("▸", "start", "Start", line(`${this.model.run.model ?? ""}`, 60));
    if (step.kind === "plan") {
      const [mark, kind, title, sub] = planRow(step.one);
      return row(mark, kind, line(title, 60), line(sub, 90));
    }
    if (step.kind === "trigger")
      return row("!", "warn", "Trigger", line(this.model.trigger.reason?.head ?? this.model.trigger.reason, 80));
    if (step.kind === "attempt")
      return row(
        "✳",
        "attempt",
        `Extraction, attempt ${step.one.number}`,
        `after ${seconds(step.one.time - this.model.begin)}`,
      );
    const { one } = step;
    const spent = usedByIteration(this.model, one).total;
    const waiting = one.history === null;
    const bad = one.cell?.ok === false || one.failed;
    const facts = [waiting && this.model.live ? "running…" : seconds(one.ended - one.started)];
    if (one.calls.length) facts.push(plural(one.calls.length, "call"));
    if (spent.tokens) facts.push(`${short(spent.tokens)} tok`);
    if (spent.cost) facts.push(dollars(spent.cost));
    if (cached(one.asks)) facts.push(cached(one.asks));
    if (one.differs !== null) facts.push("differs");
    if (one.compacted) facts.push("compacted");
    return row(
      String(one.number),
      bad ? "bad" : waiting ? "waiting" : "good",
      one.title ? line(one.title, 90) : "…",
      facts.join(" · "),
    );
  }
}
