// The details of the other steps of a run: its start, the trigger, an attempt at an extraction.

import { fold, textBlock } from "./text_block.js";
import { h } from "../lib/dom.js";
import { bytes, clock, count, dollars, plural, quantity, seconds } from "../lib/format.js";
import { facts, figures, section, waitList } from "./sections.js";
import { sizeOf } from "../lib/data_source.js";
import { line, shown } from "../lib/untrusted_text.js";
import { valueOf } from "./value_view.js";

async function inputText(source, id, input, name, span) {
  const block = await textBlock(source, id, input.value, { label: name, span });
  requestAnimationFrame(() => block.querySelector("#evidence")?.scrollIntoView({ block: "center" }));
  return block;
}

// The start of a run; `wanted` is an input to open, at a range of its text.
export async function startDetail(source, model, { input: wanted = null, span = null } = {}) {
  const { beginning } = model.summary;
  const signature = beginning.signature ?? {};
  const id = model.id;
  const opened = String(wanted ?? "").split("/")[0]; // `docs/3` is one of several texts
  const marks = wanted === opened && span ? span : null;
  const inputs = Object.entries(beginning.inputs ?? {}).map(([name, input]) =>
    h(
      "div",
      { class: name === opened ? "input wanted" : "input", id: name === opened && !marks ? "evidence" : null },
      h(
        "p",
        { class: "input-head" },
        h("code", {}, shown(name)),
        h(
          "span",
          { class: "muted" },
          ` ${input?.type ?? ""}`,
          input?.size === undefined
            ? ""
            : `, ${input.kind === "bytes" || input.type === "File" ? bytes(input.size) : plural(input.size, input.kind === "text" ? "character" : "item")}`,
        ),
      ),
      input?.note && h("p", { class: "muted" }, shown(String(input.note))),
      sizeOf(input?.value) > 400 || (name === opened && marks)
        ? fold(
            name === opened && marks ? "The place" : "Show the beginning",
            () => inputText(source, id, input, name, name === opened ? marks : null),
            { open: name === opened },
          )
        : h("div", { class: "input-value" }, valueOf(source, id, input?.value)),
    ),
  );
  const instructions = signature.instructions
    ? await textBlock(source, id, signature.instructions, { kind: "prose", label: "Instructions" })
    : null;
  const { task } = beginning;
  return h(
    "div",
    { class: "detail" },
    h(
      "div",
      { class: "detail-head" },
      h("h2", {}, "Start"),
      figures(["at", clock(model.run.started)], ["took", seconds(model.run.duration)]),
    ),
    section(
      "Task",
      instructions,
      figures(["inputs", (signature.inputs ?? []).join(", ")], ["outputs", (signature.outputs ?? []).join(", ")]),
      signature.schema && fold("Schema of the outputs", () => valueOf(source, id, signature.schema)),
      task?.text && fold(["Task file ", h("code", {}, line(task.path, 80))], () => textBlock(source, id, task.text)),
    ),
    section("Inputs", inputs.length ? inputs : null),
    section("Models", facts(source, id, beginning.models)),
    section("Limits", facts(source, id, beginning.trigger)),
    section("Settings", facts(source, id, beginning.settings)),
  );
}

// The reason as facts; the value of its limit has the unit of the quantity that it limits.
function limitFacts({ kind, limit, ...used }) {
  const [name] = Object.keys(used);
  return { kind: String(kind ?? "").replaceAll("_", " "), ...used, limit: quantity(name ?? "", limit) ?? limit };
}

export async function triggerDetail(source, model) {
  const { trigger } = model;
  const before = model.budgets.filter((budget) => budget.time <= trigger.time).at(-1) ?? {};
  const spent = {
    iterations: before.iterations,
    "LLM calls": before.llm_calls,
    tokens: before.tokens,
    cost: before.cost_usd,
  };
  return h(
    "div",
    { class: "detail" },
    h("div", { class: "detail-head" }, h("h2", {}, "Trigger"), figures(["after", seconds(trigger.time - model.begin)])),
    section("Why", h("p", { class: "lead" }, valueOf(source, model.id, trigger.reason))),
    section("Limit", facts(source, model.id, limitFacts(trigger.data))),
    section("Used so far", facts(source, model.id, spent)),
    h(
      "p",
      { class: "muted" },
      "After this no code was executed: the outputs were extracted from the history and the variables.",
    ),
  );
}

export async function attemptDetail(source, model, number) {
  const attempt = model.attempts.find((candidate) => candidate.number === number);
  const data = (await source.whole(model.id, [attempt.sequence])).get(attempt.sequence) ?? {};
  const ask = model.extractionAsks[model.attempts.indexOf(attempt)] ?? {};
  const problems = data.problems ?? [];
  return h(
    "div",
    { class: "detail" },
    h(
      "div",
      { class: "detail-head" },
      h("h2", {}, `Extraction, attempt ${number}`),
      h(
        "span",
        { class: `state ${problems.length ? "bad" : "good"}` },
        problems.length ? plural(problems.length, "problem") : "accepted",
      ),
      figures(
        ["model", ask.seconds ? seconds(ask.seconds) : null],
        ["answer", ask.cached ? "cached" : null],
        ["tokens", ask.tokensIn ? count(ask.tokensIn + ask.tokensOut) : null],
        ["cost", dollars(ask.cost)],
      ),
    ),
    waitList(ask.waits ?? [], model.begin),
    problems.length
      ? section(
          "Problems",
          h(
            "ul",
            { class: "problems" },
            problems.map((problem) =>
              h("li", {}, h("code", {}, shown(String(problem.path || "/"))), " ", valueOf(source, model.id, problem.message)),
            ),
          ),
        )
      : null,
    section("Answer of the model", await textBlock(source, model.id, data.text, { kind: "json", label: "Raw text" })),
    section(
      "Prompt",
      fold([plural(sizeOf(data.prompt), "character")], () =>
        textBlock(source, model.id, data.prompt, { kind: "prompt" }),
      ),
    ),
  );
}
