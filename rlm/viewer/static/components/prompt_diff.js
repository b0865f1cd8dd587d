// The prompt of an iteration beside that of another one.

import { diffed } from "./side_by_side.js";
import { fold } from "./text_block.js";
import { h } from "../lib/dom.js";
import { plural } from "../lib/format.js";
import { textOf } from "../lib/data_source.js";
import { shown } from "../lib/untrusted_text.js";

const CHUNK = 200;
const MOST_CHARS = 60000;

// The complete prompts of two iterations: a list of [role, text], the system prompt first. An event has the turns that
// are new, and how many of the turns before them stay.
async function prompts(source, model, numbers) {
  const last = Math.max(...numbers);
  const asks = model.iterations
    .filter((iteration) => iteration.number <= last)
    .flatMap((iteration) => iteration.asks.filter((ask) => ask.role === "main" && ask.asked));
  const found = new Map();
  let system = null;
  let turns = [];
  for (let from = 0; from < asks.length; from += CHUNK) {
    const page = asks.slice(from, from + CHUNK);
    const events = await source.whole(
      model.id,
      page.map((ask) => ask.asked),
    );
    for (const ask of page) {
      const data = events.get(ask.asked);
      if (!data) continue;
      system = data.system ?? system;
      turns = [...turns.slice(0, data.kept ?? 0), ...(data.turns ?? [])];
      found.set(ask.iteration, [["system", system ?? ""], ...turns]);
    }
  }
  return numbers.map((number) => found.get(number) ?? []);
}

function identity(turn) {
  return turn ? `${turn[0]}\n${turn[1]?.$body ?? JSON.stringify(turn[1])}` : "";
}

async function difference(source, model, other, number) {
  const [first, second] = await prompts(source, model, [other, number]);
  const rows = [];
  let same = 0;
  const settle = () => {
    if (same) rows.push(h("p", { class: "muted" }, `${plural(same, "message is", "messages are")} the same.`));
    same = 0;
  };
  for (let at = 0; at < Math.max(first.length, second.length); at += 1) {
    if (first[at] && second[at] && identity(first[at]) === identity(second[at])) {
      same += 1;
      continue;
    }
    settle();
    const [left, right] = await Promise.all(
      [first[at], second[at]].map(async (turn) => turn && (await textOf(source, model.id, turn[1], MOST_CHARS)).text),
    );
    rows.push(h("h3", {}, shown(String((second[at] ?? first[at])[0]))), diffed(left, right));
  }
  settle();
  return rows;
}

// A fold with the difference to the prompt of the iteration before, or of another that can be chosen.
export function promptDiff(source, model, number) {
  const others = model.iterations.map((iteration) => iteration.number).filter((other) => other !== number);
  if (!others.length) return null;
  return fold("Compare with the prompt of another iteration", async () => {
    const before = others.filter((other) => other < number).at(-1) ?? others[0];
    const select = h("select", { "aria-label": "Compare with iteration" }, others.map((other) => h("option", { value: other }, `Iteration ${other}`)));
    select.value = String(before);
    const place = h("div", { class: "prompt-diff" });
    const draw = async () => {
      place.replaceChildren(h("p", { class: "muted" }, "…"));
      const rows = await difference(source, model, Number(select.value), number);
      place.replaceChildren(...rows);
    };
    select.addEventListener("change", () => draw().catch((error) => place.replaceChildren(shown(String(error.message)))));
    await draw();
    return [h("p", { class: "prompt-diff-head" }, select, ` on the left, iteration ${number} on the right`), place];
  });
}
