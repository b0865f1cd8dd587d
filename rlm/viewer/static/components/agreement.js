// What independent runs of one task said: a row for each, and where the code of a dissenter first differed.

import { h } from "../lib/dom.js";
import { line } from "../lib/untrusted_text.js";

function differenceOf(run) {
  const { first_difference: found } = run;
  if (!found || typeof found !== "object") return null;
  return h(
    "div",
    { class: "muted" },
    `differs first in cell ${Number(found.iteration)}: `,
    h("code", {}, line(found.code || "nothing", 120)),
    " instead of ",
    h("code", {}, line(found.other || "nothing", 120)),
  );
}

function row(run, number) {
  const failed = run.outputs === null || run.outputs === undefined;
  const said = failed ? (run.reason ?? "no answer") : JSON.stringify(run.outputs);
  const dissents = failed || Array.isArray(run.differs);
  const isScript = Number.isInteger(run.iteration); // several scripts of one run
  const address = `#/run/${encodeURIComponent(run.run_id)}${isScript ? `/${run.iteration}` : ""}`;
  return h(
    "tr",
    { class: dissents ? "dissent" : "" },
    h("th", { scope: "row" }, h("a", { href: address }, `${isScript ? "script" : "run"} ${number}`)),
    h("td", {}, line(run.ending, 20)),
    h("td", {}, h("code", {}, line(said, 200)), dissents && !failed && h("b", {}, " dissents"), differenceOf(run)),
  );
}

export function agreementPart(agreement) {
  const runs = Array.isArray(agreement.runs) ? agreement.runs : [];
  return h(
    "details",
    { class: "agreement", open: true },
    h("summary", {}, `Independent ${runs.some((run) => Number.isInteger(run.iteration)) ? "scripts" : "runs"}: ${Number(agreement.agree)} of ${Number(agreement.of)} agree`),
    h("table", { class: "agreement-runs" }, h("tbody", {}, runs.map((run, index) => row(run, index + 1)))),
    agreement.reconciled && h("p", { class: "muted" }, "The last run saw the programs of the others, and decided."),
  );
}
