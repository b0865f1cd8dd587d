// Where a value of the answer came from: its kind as a button, and below it the way from the input to SUBMIT.

import { h } from "../lib/dom.js";
import { percent, plural } from "../lib/format.js";
import { line, shown } from "../lib/untrusted_text.js";

// See docs/evidence.md.
const ORIGINS = {
  computed: (item) => (inputs(item) ? `computed from ${inputs(item)}` : "computed"),
  quoted: (item) => `quoted from ${item.input}, line ${item.line}`,
  said: () => "said by a model",
  typed: (item) => (item.is_chosen ? `typed, chosen by ${inputs(item)}` : "typed into the code"),
  defaulted: () => "a default",
  none: () => "no evidence",
};

// What else speaks for a value, or against it.
const CHECKS = {
  check: (item) => `checked: ${item.quote}`,
  program: (item) => VERDICTS[item.verdict] ?? "no second program",
};

const VERDICTS = {
  agrees: "a second program agrees",
  differs: "a second program differs",
  "not independent": "a second program repeats it",
};

const UNSUPPORTED = ["typed", "defaulted", "none"];

const MEANING = {
  computed: "The value of an expression that depends on an input or on an answer of a tool.",
  quoted: "A text that stands in an input, word for word.",
  said: "An answer of a model, or something that depends on one only.",
  typed: "A literal in the code: nothing that was read supports it.",
  defaulted: "It was not given, or is still what it was set to first.",
  none: "Nothing shows where it comes from.",
  check: "A check of the task that was true.",
  program: "What the model's second, different program gave.",
};

function inputs(item) {
  return Array.isArray(item.inputs) ? item.inputs.join(", ") : "";
}

export function isOrigin(item) {
  return Object.hasOwn(ORIGINS, item.kind);
}

export function isCheck(item) {
  return Object.hasOwn(CHECKS, item.kind);
}

// Whether nothing supports a value: it was typed, is a default, or of unknown origin.
export function isUnsupported(items) {
  return items.some((item) => UNSUPPORTED.includes(item.kind) && !item.is_chosen);
}

function inputLink(run, name, span) {
  const query = new URLSearchParams({ input: name });
  if (Array.isArray(span) && !name.includes("/")) query.set("mark", `${Number(span[0])}-${Number(span[1])}`);
  return h("a", { class: "evidence", href: `#/run/${run}/start?${query}` }, line(name, 60));
}

// A cell of an earlier question of the session is in another run.
function stepLink(run, iteration, at) {
  if (!iteration) return h("span", { class: "muted" }, `an earlier question, line ${at}`);
  return h("a", { href: `#/run/${run}/${iteration}?line=${at}` }, `cell ${iteration}, line ${at}`);
}

function chain(run, item) {
  const steps = (Array.isArray(item.chain) ? item.chain : []).map((step) =>
    h(
      "li",
      {},
      stepLink(run, Number(step.iteration), Number(step.line)),
      h("code", {}, line(step.code, 200)),
    ),
  );
  const names = item.kind === "quoted" ? [item.input] : (item.inputs ?? []);
  const from = names.length
    ? [h("li", {}, "input ", names.map((name) => inputLink(run, String(name), item.kind === "quoted" ? item.span : null)))]
    : [];
  const end = steps.length ? [h("li", { class: "muted" }, "SUBMIT")] : [];
  return h("ol", { class: "chain" }, from, steps, end);
}

function panel(run, item) {
  const facts = [
    item.calls && `depends on ${plural(Number(item.calls), "call")} of models and tools`,
    typeof item.coverage === "number" && item.coverage < 1 && `${percent(item.coverage)} of the inputs was read`,
    item.note,
  ].filter(Boolean);
  return h(
    "div",
    { class: "chain-panel" },
    h("p", {}, MEANING[item.kind], item.quote && [" ", h("code", {}, line(item.quote, 200))]),
    chain(run, item),
    facts.length ? h("p", { class: "muted" }, shown(facts.map(String).join("; "))) : null,
  );
}

// The button of one origin or check; it opens the chain in `place`.
export function originButton(run, item, place) {
  const button = h(
    "button",
    {
      type: "button",
      class: `evidence ${isOrigin(item) ? "origin" : "checked"} ${item.kind} ${item.verdict === "differs" ? "differs" : ""}`,
      "aria-expanded": "false",
      "data-path": item.path,
      title: MEANING[item.kind],
    },
    line((ORIGINS[item.kind] ?? CHECKS[item.kind])(item), 60),
  );
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") !== "true";
    for (const other of place.parentElement?.querySelectorAll(".evidence[aria-expanded=true]") ?? []) other.setAttribute("aria-expanded", "false");
    button.setAttribute("aria-expanded", String(open));
    place.replaceChildren(...(open ? [panel(run, item)] : []));
  });
  return button;
}
