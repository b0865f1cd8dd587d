// A question of a session with its answer: how far its run is, then the outputs, and the way to its trace.

import { badge } from "./badge.js";
import { codeBlock, fold, textBlock } from "./text_block.js";
import { valueOf } from "./value_view.js";
import { h } from "../lib/dom.js";
import { plural, seconds } from "../lib/format.js";
import { line, shown } from "../lib/untrusted_text.js";

const MOST_STEPS = 200;

// Of a question: what was asked, its run, and how it ended; then what can be done about it.
export class QuestionCard {
  constructor(source, { asked, run, status, outputs }, { cancel, resume } = {}) {
    this.source = source;
    this.run = run;
    this.cancel = cancel;
    this.resume = resume;
    this.steps = 0;
    this.state = h("span", { class: "question-state" });
    this.progress = h("div", { class: "question-steps" });
    this.work = h("details", { class: "fold", hidden: true, open: true }, h("summary", {}, "How it was answered"), this.progress);
    this.answer = h("div", { class: "question-answer" });
    const inputs = Object.entries(asked);
    const [, text] = inputs.find(([name]) => name === "question") ?? inputs[0] ?? ["", "The same again"];
    this.element = h(
      "article",
      { class: "card question", "data-run": run },
      h("div", { class: "card-head" }, h("h2", { class: "asked" }, shown(text)), this.state),
      this.work,
      this.answer,
    );
    this.show(status, outputs, null);
  }

  // Shows how it ended, or that it runs.
  show(status, outputs, result) {
    const running = status === "running";
    const trace = h("a", { class: "button small", href: `#/run/${encodeURIComponent(this.run)}` }, "Trace");
    const stop =
      running && this.cancel && h("button", { type: "button", class: "button small", on: { click: () => this.cancel(this.run) } }, "Cancel");
    const again =
      status === "interrupted" &&
      this.resume &&
      h("button", { type: "button", class: "button small", on: { click: () => this.resume() } }, "Go on");
    this.state.replaceChildren(badge(status === "interrupted" ? "unfinished" : status), ...[stop, again, trace].filter(Boolean));
    this.work.open = running;
    if (running) return;
    const fields = outputs && typeof outputs === "object" && !Array.isArray(outputs) ? Object.entries(outputs) : [];
    this.answer.replaceChildren(
      ...[
        result?.reason && h("p", { class: `reason ${status}` }, shown(String(result.reason))),
        fields.length > 0 &&
          h(
            "table",
            { class: "answers" },
            h(
              "tbody",
              {},
              fields.map(([name, value]) =>
                h("tr", {}, h("th", { scope: "row" }, shown(name)), h("td", { class: "answer-value" }, valueOf(this.source, this.run, value))),
              ),
            ),
          ),
        result && h("p", { class: "muted about" }, about(result)),
      ].filter(Boolean),
    );
  }

  // Takes an event of the run; events of child runs are left to the trace.
  take(kind, data) {
    if (data.run !== this.run || this.steps > MOST_STEPS) return;
    if (kind === "iteration_started") this.#say(`Iteration ${data.iteration}: asking the model`);
    else if (kind === "cell_started") this.#add("Code", () => codeBlock(this.source, this.run, data.code));
    else if (kind === "cell_ended" && data.output.trim())
      this.#add(data.success ? "Output" : "Output, with an error", () => textBlock(this.source, this.run, data.output, { label: "Output" }));
    else if (kind === "model_waiting") this.#say(`Waiting ${seconds(data.seconds)} for ${data.model}: ${data.reason}`);
    else if (kind === "trigger_fired") this.#say(`${data.reason}: extracting an answer`);
    else if (kind === "skipped") this.#say(`${plural(data.events, "event")} left out; the trace has them`);
  }

  #say(text) {
    this.#append(h("p", { class: "muted" }, line(text, 200)));
  }

  #add(label, make) {
    this.#append(fold(label, make, { open: true }));
  }

  #append(step) {
    this.steps += 1;
    this.work.hidden = false;
    this.progress.append(step);
    this.progress.scrollTop = this.progress.scrollHeight;
  }
}

function about(result) {
  const parts = [result.trust, result.iterations !== undefined && plural(result.iterations, "iteration"), seconds(result.usage?.seconds)];
  return parts.filter((part) => part && part !== "–").join(" · ");
}
