// The details of one iteration: reasoning, code, output, variables, host calls, prompt and reply.

import { codeBlock, fold, textBlock } from "./text_block.js";
import { callList } from "./host_calls.js";
import { h } from "../lib/dom.js";
import { count, dollars, plural, seconds, time } from "../lib/format.js";
import { cached, usedByIteration, waited } from "../lib/run_model.js";
import { promptDiff } from "./prompt_diff.js";
import { figures, section, waitList } from "./sections.js";
import { sizeOf } from "../lib/data_source.js";
import { line, shown } from "../lib/untrusted_text.js";
import { valueOf } from "./value_view.js";
import { variableDiff } from "./variable_changes.js";

function promptFold(source, id, ask, data) {
  if (!data) return null;
  const turns = data.turns ?? [];
  const size = turns.reduce((sum, turn) => sum + sizeOf(turn?.[1]), 0);
  const label = ["Prompt", h("span", { class: "muted" }, ` ${ask.model ?? ""} · ${plural(size, "character")} added`)];
  return fold(label, async () =>
    [
      data.kept
        ? h("p", { class: "muted" }, `The ${plural(data.kept, "turn")} before these are those of earlier iterations.`)
        : null,
      data.system ? fold("System prompt", () => textBlock(source, id, data.system, { kind: "prompt" })) : null,
      ...(await Promise.all(
        turns.map(async ([role, text]) =>
          h(
            "div",
            { class: `turn ${role === "assistant" ? "assistant" : "user"}` },
            h("p", { class: "turn-role" }, shown(String(role))),
            await textBlock(source, id, text, { kind: "prompt" }),
          ),
        ),
      )),
    ].filter(Boolean),
  );
}

export async function iterationDetail(source, model, number, { variables, span, variable, call, codeLine }) {
  const iteration = model.byNumber.get(number);
  if (!iteration) return h("div", { class: "detail" }, h("p", { class: "muted" }, `There is no iteration ${number}.`));
  const main = iteration.asks.filter((ask) => ask.role === "main");
  const sequences = [
    iteration.cell?.sequence,
    iteration.cell?.end,
    iteration.history,
    iteration.differs,
    ...main.flatMap((ask) => [ask.asked, ask.answered]),
  ];
  const events = await source.whole(model.id, sequences);
  const id = model.id;
  const started = events.get(iteration.cell?.sequence) ?? {};
  const ended = events.get(iteration.cell?.end) ?? {};
  const history = events.get(iteration.history) ?? {};
  const answered = events.get(main.at(-1)?.answered) ?? {};
  const failed = main.filter((ask) => ask.error).map((ask) => events.get(ask.answered));
  const [reasoning, code, output, diff] = await Promise.all([
    history.reasoning ? textBlock(source, id, history.reasoning, { kind: "prose", label: "Reasoning" }) : null,
    iteration.cell ? codeBlock(source, id, started.code, ended.error?.line, codeLine) : null,
    iteration.cell?.ended && (sizeOf(ended.output) || span)
      ? textBlock(source, id, ended.output, { kind: iteration.cell.ok ? "out" : "out bad", span, label: "Output" })
      : null,
    iteration.variables === null ? null : variableDiff(variables, number, iteration.variables, variable),
  ]);
  const lost = model.lost.filter((event) => event.iteration === number);
  const spent = usedByIteration(model, iteration);
  const asking = main.reduce((sum, ask) => sum + (ask.seconds ?? 0), 0);
  const wait = iteration === model.iterations.at(-1) ? model.waitAt(Date.now() / 1000) : null;
  const stopped = ["unfinished", "resumed"].includes(model.run.ending) ? "the trace ends here" : "the run ended here";
  const state = !iteration.cell
    ? iteration.history === null
      ? model.live
        ? wait
          ? `waiting for ${wait.model} until ${time(wait.started + wait.seconds)}: ${wait.reason}`
          : "waiting for the model"
        : stopped
      : "no code in the reply"
    : !iteration.cell.ended
      ? model.live
        ? "running"
        : stopped
      : iteration.cell.ok
        ? null
        : iteration.cell.limit
          ? String(iteration.cell.limit)
          : ended.error
            ? String(ended.error.name ?? "error")
            : "error";
  return h(
    "div",
    { class: "detail" },
    h(
      "div",
      { class: "detail-head" },
      h("h2", {}, `Iteration ${number}`),
      state && h("span", { class: `state ${iteration.cell?.ok === false ? "bad" : "waiting"}` }, shown(state)),
      figures(
        ["model", asking ? seconds(asking) : null],
        ["waited", iteration.waits.length ? seconds(waited(iteration.waits)) : null],
        ["answer", cached(main) || null],
        ["cell", iteration.cell?.ended ? seconds(iteration.cell.seconds) : null],
        ["tokens", spent.total.tokens ? count(spent.total.tokens) : null],
        ["cost", dollars(spent.total.cost)],
      ),
    ),
    failed.map(
      (data) =>
        data &&
        h(
          "p",
          { class: "problem" },
          shown(`The request to the model failed (${data.error_kind}): `),
          valueOf(source, id, data.message),
        ),
    ),
    lost.map(({ kind, why }) =>
      h("p", { class: "problem" }, line(`An event (${kind}) could not be recorded: ${why}`, 400)),
    ),
    waitList(iteration.waits, model.begin),
    section("Reasoning", reasoning),
    section("Code", code),
    iteration.cell?.ended && section("Output", output ?? h("p", { class: "muted" }, "There was no output.")),
    !iteration.cell &&
      iteration.history !== null &&
      answered.text !== undefined &&
      section("Reply", await textBlock(source, id, answered.text, { kind: "prompt" })),
    iteration.differs !== null && section("Replay", replayed(source, id, events.get(iteration.differs))),
    section("Variables", diff),
    iteration.calls.length ? section(`Host calls`, callList(source, model, iteration.calls, call)) : null,
    section(
      "Prompt and reply",
      ...main.map((ask) => promptFold(source, id, ask, events.get(ask.asked))),
      answered.text !== undefined &&
        fold(["Reply", h("span", { class: "muted" }, ` ${plural(sizeOf(answered.text), "character")}`)], () =>
          textBlock(source, id, answered.text, { kind: "prompt" }),
        ),
      history.told !== undefined &&
        fold(["Observation", h("span", { class: "muted" }, ` ${plural(sizeOf(history.told), "character")}`)], () =>
          textBlock(source, id, history.told, { kind: "prompt" }),
        ),
      main.some((ask) => ask.asked) && promptDiff(source, model, number),
    ),
  );
}

function replayed(source, id, data) {
  return [
    h("p", { class: "problem" }, "The replayed cell printed another output than the recorded cell."),
    fold("Recorded output", () => textBlock(source, id, data?.recorded)),
    fold("Output of the replay", () => textBlock(source, id, data?.now)),
  ];
}
