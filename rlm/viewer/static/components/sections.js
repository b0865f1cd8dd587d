// The parts that the details of a step are made of.

import { h } from "../lib/dom.js";
import { shown } from "../lib/untrusted_text.js";
import { valueOf } from "./value_view.js";

export function section(title, ...content) {
  const known = content.filter(Boolean);
  return known.length ? h("section", { class: "part" }, h("h3", {}, title), known) : null;
}

export function figures(...pairs) {
  const known = pairs.filter((one) => one && one[1] !== undefined && one[1] !== null && one[1] !== "–");
  return h(
    "p",
    { class: "figures" },
    known.map(([name, value]) => h("span", {}, h("span", { class: "muted" }, `${name} `), value)),
  );
}

export function facts(source, id, values) {
  return h(
    "dl",
    { class: "facts" },
    Object.entries(values ?? {})
      .filter(([, value]) => value !== null && value !== undefined && value !== "")
      .map(([name, value]) => [h("dt", {}, shown(name.replaceAll("_", " "))), h("dd", {}, valueOf(source, id, value))]),
  );
}
