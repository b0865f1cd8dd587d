// One run: answer, budgets, timeline and steps, updated while the run continues.

import { copyButton, linkButton } from "../components/copy_button.js";
import { ApprovalCard } from "../components/approval_card.js";
import { NoteCard } from "../components/note_card.js";
import { answerCard } from "../components/answer_card.js";
import { filesCard } from "../components/files_card.js";
import { h } from "../lib/dom.js";
import { Timeline } from "../components/timeline.js";
import { clock, count, seconds, titleOf } from "../lib/format.js";
import { gauges } from "../components/budget_gauges.js";
import { RunModel } from "../lib/run_model.js";
import { badge } from "../components/badge.js";
import { Steps } from "../components/step_list.js";
import { line } from "../lib/untrusted_text.js";
import { Tree } from "../components/call_tree.js";

const EVERY = 700;
const INNER_RUNS = 24;
const INNER_EVENTS = 5000;

export class RunPage {
  static folded = false;

  constructor({ source, go, chosen, home, id }) {
    Object.assign(this, { source, go, chosen, home, id });
    this.title = id;
    this.inner = new Map();
    this.top = h("div", { class: "run-top" });
    this.cards = h("div", { class: "run-cards" });
    this.tabs = h("div", { class: "tabs", role: "tablist" });
    this.below = h("div", { class: "run-below" });
    this.element = h("main", { class: "run-page" }, h("p", { class: "muted loading" }, "…"));
    this.tab = "steps";
    this.folded = RunPage.folded;
    this.element.classList.toggle("folded", this.folded);
  }

  async start(query) {
    const [summary, first] = await Promise.all([this.source.summary(this.id), this.source.events(this.id, 0)]);
    this.model = new RunModel({ ...summary, run: first.run });
    this.model.add(first.events);
    this.id = this.model.id;
    this.title = `${titleOf(this.model.run)} ${this.id}`;
    this.timeline = new Timeline({
      open: (span) =>
        this.go(
          span.run === this.id || span.iteration
            ? `#/run/${span.run}${span.iteration ? `/${span.iteration}` : ""}`
            : `#/run/${span.run}`,
        ),
    });
    this.steps = new Steps({ source: this.source, model: this.model, go: this.go });
    const { note, writable } = summary;
    this.note = new NoteCard({ source: this.source, id: this.id, note, writable, changed: () => this.note && this.#head() });
    this.approvals = new ApprovalCard({ source: this.source, id: this.id, writable });
    this.element.replaceChildren(this.top, this.note.element, this.approvals.element, this.cards, this.timeline.element, this.tabs, this.below);
    this.#head();
    this.#tabs();
    const texts = this.turn(query); // the timeline is drawn while they are loaded
    this.timeline.set(this.model, (id) => this.inner.get(id));
    await texts;
    this.#approvals();
    this.#loadInner().catch(() => {});
    if (this.model.live && !this.source.embedded) this.timer = setTimeout(() => this.#poll(), EVERY);
  }

  close() {
    clearTimeout(this.timer);
    this.closed = true;
    this.timeline?.close();
    this.steps?.close();
  }

  // Show another step of the same run, with a range or variable marked in it.
  async turn({ step, query }) {
    const mark = /^(\d+)-(\d+)$/.exec(query.get("mark") ?? "");
    const marked = mark ? [Number(mark[1]), Number(mark[2])] : null;
    const variable = query.get("variable");
    const call = /^\d+$/.test(query.get("call") ?? "") ? Number(query.get("call")) : null;
    const codeLine = /^\d+$/.test(query.get("line") ?? "") ? Number(query.get("line")) : null;
    const input = query.get("input");
    const [part, find] = [query.get("part"), query.get("find") ?? ""];
    const key =
      step ??
      (this.model.live
        ? this.steps.list.items.at(-1).key
        : this.model.iterations.length
          ? String(this.model.iterations[0].number)
          : "start");
    if (!step && query.get("tab") === "tree") this.#choose("tree");
    if (step && this.tab !== "steps") this.#choose("steps");
    this.timeline.mark(Number(key) || null);
    await this.steps.show(key, { span: marked, variable, part, call, codeLine, input, find, focus: Boolean(step) });
  }

  async #load(id) {
    if (!this.inner.has(id)) {
      const [summary, first] = await Promise.all([this.source.summary(id), this.source.events(id, 0)]);
      const model = new RunModel(summary);
      model.add(first.events);
      this.inner.set(id, model);
    }
    return this.inner.get(id);
  }

  // Load child runs for the timeline; of many, only the first ones.
  async #loadInner() {
    let room = INNER_EVENTS;
    const missing = this.model.descendants
      .slice(0, INNER_RUNS)
      .filter((run) => (room -= run.event_count) > 0 && !this.inner.has(run.id));
    if (!missing.length) return;
    for (const run of missing) await this.#load(run.id);
    if (!this.closed) this.timeline.set(this.model, (id) => this.inner.get(id));
  }

  async #poll() {
    try {
      const { run, events } = await this.source.events(this.id, this.model.last);
      const ended = run.ending !== "running";
      if (events.length || ended) {
        const children = events.some((event) => ["call_started", "plan_selected"].includes(event[2]));
        const summary = ended || children ? await this.source.summary(this.id) : this.model.summary;
        const follow = this.steps.atEnd;
        const touched = new Set(events.map((event) => String(event[4].iteration)));
        this.model.update({ ...summary, run });
        this.model.add(events);
        if (this.closed) return;
        this.#approvals();
        const more = this.steps.refresh();
        this.#head();
        this.timeline.set(this.model, (id) => this.inner.get(id));
        if (follow && more) await this.steps.show(this.steps.list.items.at(-1).key);
        else if (touched.has(this.steps.key)) await this.steps.show(this.steps.key);
        this.#loadInner().catch(() => {});
      } else this.timeline.set(this.model, (id) => this.inner.get(id)); // the bars of what goes on grow
      this.element.classList.remove("stale");
      if (ended) return;
    } catch {
      this.element.classList.add("stale"); // the server does not answer: the page stays as it is, and tries again
    }
    if (!this.closed) this.timer = setTimeout(() => this.#poll(), document.hidden ? EVERY * 5 : EVERY);
  }

  #approvals() {
    const open = this.model.live ? this.model.approvals : new Set();
    this.approvals.refresh(open).catch(() => {});
  }

  #head() {
    const { run } = this.model;
    const task = this.model.summary.beginning.task ?? {};
    const batch = typeof task.batch === "string" ? task.batch : task.batch?.head;
    const session = typeof task.session === "string" && task.session;
    const about = [
      h("span", { class: "id" }, h("code", {}, run.id), copyButton(() => run.id, { title: "Copy the id" })),
      run.model && line(run.model, 60),
      clock(run.started),
      seconds(run.duration),
      run.task && h("span", { class: "path" }, line(run.task, 80)),
      batch &&
        h("a", { href: `#/?q=${encodeURIComponent(`batch:"${batch.replaceAll('"', "")}"`)}` }, "batch ", line(batch.split("/").pop(), 40)),
      session &&
        h("a", { href: `#/?q=${encodeURIComponent(`session:${session}`)}` }, `question ${count(task.question)} of session `, h("code", {}, line(session, 20))),
      run.resumed_from &&
        h("a", { href: `#/run/${run.resumed_from}` }, "resumed from ", h("code", {}, line(run.resumed_from, 20))),
      run.resumed_by &&
        h("a", { href: `#/run/${run.resumed_by}` }, "resumed as ", h("code", {}, line(run.resumed_by, 20))),
      run.parent && h("a", { href: `#/run/${run.parent}` }, "child of ", h("code", {}, line(run.parent, 20))),
      this.model.interrupted && "interrupted",
    ].filter(Boolean);
    const addNote =
      this.note.writable &&
      this.note.empty &&
      h("button", { type: "button", class: "button small", on: { click: () => this.note.edit() } }, "Add a note");
    const compare =
      !this.source.embedded &&
      h(
        "button",
        {
          type: "button",
          class: "button",
          on: {
            click: () => {
              this.chosen.clear();
              this.chosen.add(run.id);
              this.go("#/");
            },
          },
        },
        "Compare with…",
      );
    this.top.replaceChildren(
      h(
        "header",
        { class: "run-head" },
        h("div", { class: "run-title" }, h("h1", {}, line(titleOf(run), 80)), badge(run.ending), h("span", { class: "run-buttons" }, addNote, linkButton(), compare)),
        h(
          "p",
          { class: "run-about" },
          about.map((item) => h("span", {}, item)),
        ),
      ),
    );
    this.cards.replaceChildren(
      answerCard(this.source, this.model),
      ...filesCard(this.source, this.model),
      h(
        "section",
        { class: "card budget-card", "aria-label": "Budget" },
        h(
          "div",
          { class: "card-head" },
          h("h2", {}, "Budget"),
          this.model.trigger && h("span", { class: "fired-key" }, h("i", {}), "trigger fired"),
        ),
        gauges(this.model),
      ),
    );
  }

  #tabs() {
    const tab = (name, label) =>
      h(
        "button",
        {
          type: "button",
          role: "tab",
          class: "tab",
          "aria-selected": String(this.tab === name),
          "data-tab": name,
          on: { click: () => this.#choose(name) },
        },
        label,
      );
    const overview = h(
      "button",
      {
        type: "button",
        class: "button small overview-toggle",
        "aria-expanded": String(!this.folded),
        on: { click: () => this.#fold(!this.folded) },
      },
      this.folded ? "Show overview" : "Hide overview",
    );
    this.tabs.replaceChildren(tab("steps", "Steps"), tab("tree", "Calls and cost"), overview);
    this.below.replaceChildren(this.tab === "steps" ? this.steps.element : this.#tree().element);
  }

  // Hide or show the cards above the steps, here and on the pages of other runs.
  #fold(folded) {
    this.folded = folded;
    RunPage.folded = folded;
    this.element.classList.toggle("folded", folded);
    this.#tabs();
  }

  #tree() {
    return new Tree({ model: this.model, load: (id) => this.#load(id) });
  }

  #choose(name) {
    this.tab = name;
    this.#tabs();
    if (name === "steps") this.steps.list.draw();
    const place = `#/run/${this.id}${name === "tree" ? "?tab=tree" : `/${this.steps.key ?? "start"}`}`;
    if (new URLSearchParams(location.hash.split("?")[1]).get("tab") !== (name === "tree" ? "tree" : null)) history.replaceState(null, "", place);
  }

  keys = {
    j: () => this.steps.move(1),
    k: () => this.steps.move(-1),
    g: () => this.steps.jump(0),
    G: () => this.steps.jump(-1),
    "/": () => {
      if (this.tab !== "steps") this.#choose("steps");
      this.steps.search.focus();
    },
    n: () => this.note.edit(),
    o: () => this.#fold(!this.folded),
    t: () => this.#choose(this.tab === "steps" ? "tree" : "steps"),
    Enter: () => this.steps.pane.focus(),
    Escape: () => this.source.embedded || this.go(this.home),
  };
}
