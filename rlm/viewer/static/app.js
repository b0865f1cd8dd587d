// The page: routes between its parts by the address, and handles keys.

import { ComparePage } from "./pages/compare_page.js";
import { h } from "./lib/dom.js";
import { RunPage } from "./pages/run_page.js";
import { RunsPage } from "./pages/runs_page.js";
import { EmbeddedSource, ServerSource } from "./lib/data_source.js";
import { EvaluationPage } from "./pages/evaluation_page.js";
import { CONDITIONS } from "./lib/search_query.js";
import { shown } from "./lib/untrusted_text.js";

const HELP = [
  ["j  k", "next, previous"],
  ["g  G", "first, last"],
  ["Enter", "open; in the search, open the first match"],
  ["/", "search"],
  ["Esc", "back, or clear the search"],
  ["x", "choose a run to compare"],
  ["c", "compare the two chosen runs"],
  ["t", "steps, or calls and cost"],
  ["o", "hide or show the overview of a run"],
  ["?", "this help"],
];

const data = document.getElementById("trace");
const source = data ? new EmbeddedSource(JSON.parse(data.textContent)) : new ServerSource();
const chosen = new Set();
const place = document.getElementById("page");
let page = null;
let address = null;
let home = "#/";

const help = h(
  "dialog",
  { class: "help", "aria-label": "Help" },
  h("h2", {}, "Keys"),
  h(
    "dl",
    {},
    HELP.map(([keys, meaning]) => [
      h(
        "dt",
        {},
        keys.split("  ").map((key) => h("kbd", {}, key)),
      ),
      h("dd", {}, meaning),
    ]),
  ),
  !source.embedded && [
    h("h2", {}, "Search conditions"),
    h("p", { class: "muted" }, "Conditions can be combined with each other and with words. All have to match."),
    h(
      "dl",
      { class: "conditions" },
      CONDITIONS.map(([examples, meaning]) => [
        h(
          "dt",
          {},
          examples.split("  ").map((example) => h("code", {}, example)),
        ),
        h("dd", {}, meaning),
      ]),
    ),
  ],
  h("button", { type: "button", class: "button", on: { click: () => help.close() } }, "Close"),
);
const content = h("div", { class: "content" });
const crumb = h("span", { class: "crumb" }, source.embedded ? "one run, as a file" : "runs");
place.append(
  h(
    "nav",
    { class: "top", "aria-label": "Page" },
    h(
      "a",
      { class: "brand", href: source.embedded ? `#/run/${source.root}` : "#/" },
      h("span", { class: "brand-mark", "aria-hidden": "true" }),
      "rlm",
    ),
    crumb,
    h(
      "button",
      { type: "button", class: "button small keys", "aria-label": "Keys and search conditions", on: { click: () => help.showModal() } },
      "?",
    ),
  ),
  content,
  help,
);

function go(hash) {
  if (location.hash === hash) route();
  else location.hash = hash;
}

function read(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [name, first, second] = path.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { name, first, second, query: new URLSearchParams(query) };
}

async function route() {
  const target = read(location.hash);
  if (source.embedded && target.name !== "run")
    Object.assign(target, { name: "run", first: source.root, second: undefined });
  const key =
    target.name === "run"
      ? `run/${target.first}`
      : target.name === "compare"
        ? `compare/${target.first}/${target.second}`
        : target.name === "eval"
          ? "eval"
          : "runs";
  if (page && key === address) {
    if (target.name === "run" && page.model) await page.turn({ step: target.second, query: target.query });
    return;
  }
  page?.close();
  address = key;
  const common = { source, go, chosen, home, query: target.query };
  if (target.name === "run") page = new RunPage({ ...common, id: target.first });
  else if (target.name === "compare") page = new ComparePage({ ...common, first: target.first, second: target.second });
  else if (target.name === "eval") page = new EvaluationPage(common);
  else page = new RunsPage(common);
  const here = page;
  content.replaceChildren(here.element);
  scrollTo(0, 0);
  try {
    await here.start({ step: target.second, query: target.query });
    document.title = `${here.title} · rlm`;
    if (here instanceof EvaluationPage && home === "#/") {
      home = "#/eval"; // from now on, Escape leads back to the evaluation
      crumb.replaceChildren(h("a", { href: "#/" }, "runs"), " · ", h("a", { href: home }, "evaluation"));
    }
    performance.mark("rlm-open");
  } catch (error) {
    console.error(error);
    here.element.replaceChildren(
      h(
        "div",
        { class: "card failed-page" },
        h("h1", {}, "This cannot be shown"),
        h("p", {}, shown(String(error.message ?? error))),
        !source.embedded && h("a", { class: "button", href: "#/" }, "All runs"),
      ),
    );
  }
}

addEventListener("hashchange", route);
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  const typing = event.target.closest?.("input:not([type=checkbox]), select, textarea");
  if (typing) {
    if (event.key === "Escape" || event.key === "Enter") {
      event.target.blur();
      event.preventDefault();
    }
    return;
  }
  if (event.key === "Enter" && event.target.closest?.("a, button, summary")) return;
  if (event.key === "?") help.showModal();
  else if (page?.keys?.[event.key]) page.keys[event.key]();
  else return;
  event.preventDefault();
});

route();
