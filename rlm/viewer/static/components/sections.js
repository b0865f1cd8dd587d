// The parts of the details of a step: sections, figures, lists of facts.

import { h } from "../lib/dom.js";
import { label, quantity, seconds } from "../lib/format.js";
import { isReference } from "../lib/data_source.js";
import { line, shown } from "../lib/untrusted_text.js";
import { valueOf } from "./value_view.js";

export function section(title, ...content) {
  const parts = content.filter(Boolean);
  const part = title.toLowerCase().replaceAll(" ", "-");
  return parts.length ? h("section", { class: "part", "data-part": part }, h("h3", {}, title), parts) : null;
}

export function figures(...pairs) {
  const known = pairs.filter((pair) => pair && pair[1] !== undefined && pair[1] !== null && pair[1] !== "–");
  return h(
    "p",
    { class: "figures" },
    known.map(([name, value]) => h("span", {}, h("span", { class: "muted" }, `${name} `), value)),
  );
}

// The waits for a provider, one a line; `begin` is the start of the run.
export function waitList(waits, begin) {
  if (!waits.length) return null;
  const rows = waits.map((wait) =>
    h(
      "li",
      {},
      h("b", {}, seconds(wait.seconds)),
      h("span", {}, line(`${wait.model ?? ""}: ${wait.reason}`, 400)),
      h("span", { class: "muted" }, `${seconds(wait.started - begin)} after the start`),
    ),
  );
  return section("Waits for the provider", h("ul", { class: "waits" }, rows));
}

function isGroup(value) {
  return typeof value === "object" && !Array.isArray(value) && !isReference(value) && !("$json" in value);
}

// Names and values as a list, numbers with their units; groups of values are nested. Empty ones are left out.
export function facts(source, id, values) {
  const known = Object.entries(values ?? {}).filter(
    ([, value]) => value !== null && value !== undefined && value !== "" && !(Array.isArray(value) && !value.length),
  );
  return h(
    "dl",
    { class: "facts" },
    known.map(([name, value]) => [
      h("dt", {}, shown(label(name))),
      h("dd", {}, isGroup(value) ? facts(source, id, value) : (quantity(name, value) ?? valueOf(source, id, value))),
    ]),
  );
}
