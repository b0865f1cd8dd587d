// The steps of a run beside the details of one of them: start, plans or iterations, trigger, extraction attempts.

import { anchor } from "./copy_button.js";
import { FoundText } from "./found_text.js";
import { RunSearch } from "./run_search.js";
import { attemptDetail, startDetail, triggerDetail } from "./step_details.js";
import { h } from "../lib/dom.js";
import { dollars, plural, seconds, short } from "../lib/format.js";
import { iterationDetail } from "./iteration_details.js";
import { cached, usedByIteration, waited } from "../lib/run_model.js";
import { planDetail, planRow } from "./plan_steps.js";
import { line, shown } from "../lib/untrusted_text.js";
import { WindowedList } from "./windowed_list.js";
import { VariableLog } from "./variable_changes.js";

const HEIGHT = 54;
const MOST_FOLDS = 10;

// Where the parts of `run_search.py` are shown: the sections that can have it, and which folds to open.
const PLACES = {
  prompt: [["prompt-and-reply", "prompt"], /prompt|characters/i],
  reply: [["reply", "prompt-and-reply"], /^reply/i],
  observation: [["prompt-and-reply"], /^observation/i],
  calls: [["host-calls"], /./],
  inputs: [["inputs"], /./],
  answer: [["answer-of-the-model"], null],
  reason: [["why"], null],
};

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
    this.search = new RunSearch({
      source,
      id: model.id,
      list: this.list.element,
      titleOf: (key) => this.#titleOf(key),
      go: (address) => go(address),
    });
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
      h("div", { class: "rail-box card" }, this.search.input, this.list.element, this.search.places),
      h("div", { class: "pane-box" }, this.stepper, this.pane),
    );
    this.found = new FoundText(this.pane);
    this.shown = null;
    this.refresh();
  }

  close() {
    this.list.close();
    this.found.close();
  }

  #titleOf(key) {
    const attempt = /^attempt-(\d+)$/.exec(key);
    if (attempt) return `Extraction, attempt ${attempt[1]}`;
    return /^\d+$/.test(key) ? `Iteration ${key}` : key[0].toUpperCase() + key.slice(1);
  }

  // Update the steps. Return whether there are new ones.
  refresh() {
    const { model } = this;
    const steps = [{ key: "start", kind: "start", title: "Start" }];
    for (const item of model.plans) steps.push({ key: `plan-${item.sequence}`, kind: "plan", item });
    for (const item of model.iterations) steps.push({ key: String(item.number), kind: "iteration", item });
    if (model.trigger) steps.push({ key: "trigger", kind: "trigger", title: "Trigger" });
    for (const item of model.attempts) steps.push({ key: `attempt-${item.number}`, kind: "attempt", item });
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

  // Show one step; the details of another that arrive later are dropped.
  async show(key, { span = null, variable = null, part = null, call = null, codeLine = null, input = null, find = "", focus = false } = {}) {
    const index = this.list.items.findIndex((step) => step.key === key);
    const at = index < 0 ? Math.min(1, this.list.items.length - 1) : index;
    this.list.select(at);
    const step = this.list.items[at];
    this.where.replaceChildren(`${at + 1} of ${this.list.items.length}`);
    const request = (this.request = Symbol(step.key));
    let detail;
    try {
      detail = await this.#detail(step, { span, variable, call, codeLine, input });
    } catch (error) {
      detail = h("p", { class: "problem" }, shown(String(error.message ?? error)));
    }
    if (this.request !== request) return;
    const same = this.shown === step.key;
    const open = same ? [...this.pane.querySelectorAll("details")].map((fold) => fold.open) : [];
    this.#link(detail, step.key);
    this.pane.replaceChildren(detail);
    this.found.set(find);
    if (find) this.search.set(find);
    if (same)
      [...this.pane.querySelectorAll("details")].forEach((fold, index) => {
        if (open[index]) fold.open = true;
      });
    this.shown = step.key;
    const mark = this.pane.querySelector("#evidence");
    if (mark) mark.scrollIntoView({ block: "center" });
    else if (part) this.#openPart(part);
    else if (focus) this.#bringIntoView();
  }

  // An address for each part of the details.
  #link(detail, key) {
    for (const part of detail.querySelectorAll(".part[data-part]")) {
      if (part.parentElement.closest(".fold")) continue;
      const { part: name } = part.dataset;
      part.querySelector("h3").after(anchor(`#/run/${this.model.id}/${key}?part=${name}`, `this part: ${name}`));
    }
  }

  // Scroll to a part of the step, and open in it what has the searched text.
  #openPart(name) {
    const [section, folds] = Object.hasOwn(PLACES, name) ? PLACES[name] : [[name], null];
    const part = section.map((one) => this.pane.querySelector(`.part[data-part="${CSS.escape(one)}"]`)).find(Boolean);
    if (!part) {
      this.#bringIntoView();
      return;
    }
    part.classList.add("wanted");
    this.#keepInView(part);
    const closed = [...part.querySelectorAll("details.fold")].filter((fold) => folds?.test(fold.querySelector("summary").textContent));
    for (const fold of closed.slice(0, MOST_FOLDS)) fold.open = true;
  }

  // Texts above the part arrive later and push it down: it is brought back until the reader does something.
  #keepInView(part) {
    this.kept?.abort();
    const kept = (this.kept = new AbortController());
    part.scrollIntoView({ block: "start" });
    const observer = new ResizeObserver(() => part.isConnected && part.scrollIntoView({ block: "start" }));
    observer.observe(document.body);
    kept.signal.addEventListener("abort", () => observer.disconnect());
    for (const kind of ["wheel", "touchstart", "pointerdown", "keydown"])
      addEventListener(kind, () => kept.abort(), { signal: kept.signal, passive: true });
    setTimeout(() => kept.abort(), 5000);
  }

  #bringIntoView() {
    const { top } = this.element.getBoundingClientRect();
    if (top > innerHeight * 0.6 || top < -40) this.element.scrollIntoView({ block: "start" });
  }

  #detail(step, { span, variable, call, codeLine, input }) {
    if (step.kind === "start") return startDetail(this.source, this.model, { input, span });
    if (step.kind === "plan") return planDetail(this.source, this.model, step.item);
    if (step.kind === "trigger") return triggerDetail(this.source, this.model);
    if (step.kind === "attempt") return attemptDetail(this.source, this.model, step.item.number);
    return iterationDetail(this.source, this.model, step.item.number, { variables: this.variables, span, variable, call, codeLine });
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
      const [mark, kind, title, sub] = planRow(step.item);
      return row(mark, kind, line(title, 60), line(sub, 90));
    }
    if (step.kind === "trigger")
      return row("!", "warn", "Trigger", line(this.model.trigger.reason?.head ?? this.model.trigger.reason, 80));
    if (step.kind === "attempt")
      return row(
        "✳",
        "attempt",
        `Extraction, attempt ${step.item.number}`,
        `after ${seconds(step.item.time - this.model.begin)}`,
      );
    const iteration = step.item;
    const spent = usedByIteration(this.model, iteration).total;
    const waiting = iteration.history === null;
    const bad = iteration.cell?.ok === false || iteration.failed;
    const facts = [waiting && this.model.live ? "running…" : seconds(iteration.ended - iteration.started)];
    if (iteration.calls.length) facts.push(plural(iteration.calls.length, "call"));
    if (spent.tokens) facts.push(`${short(spent.tokens)} tok`);
    if (spent.cost) facts.push(dollars(spent.cost));
    if (iteration.waits.length) facts.push(`waited ${seconds(waited(iteration.waits))}`);
    if (cached(iteration.asks)) facts.push(cached(iteration.asks));
    if (iteration.differs !== null) facts.push("differs");
    if (iteration.compacted) facts.push("compacted");
    return row(
      String(iteration.number),
      bad ? "bad" : waiting ? "waiting" : "good",
      iteration.title ? line(iteration.title, 90) : "…",
      facts.join(" · "),
    );
  }
}
