// The page: routes between its parts by the address, and handles keys.

import { AskPage } from "./pages/ask_page.js";
import { ComparePage } from "./pages/compare_page.js";
import { h } from "./lib/dom.js";
import { RunPage } from "./pages/run_page.js";
import { RunsPage } from "./pages/runs_page.js";
import { EmbeddedSource, ServerSource } from "./lib/data_source.js";
import { EvaluationPage } from "./pages/evaluation_page.js";
import { EvaluationsPage } from "./pages/evaluations_page.js";
import { GROUPINGS } from "./lib/run_groups.js";
import { GroupsPage } from "./pages/groups_page.js";
import { CONDITIONS } from "./lib/search_query.js";
import { served } from "./lib/serve_client.js";
import { shown } from "./lib/untrusted_text.js";

const HELP = [
  ["j  k", "next, previous"],
  ["g  G", "first, last"],
  ["Enter", "open; in the search, open the first match"],
  ["/", "search the list, or the texts of a run"],
  ["Esc", "back, or clear the search"],
  ["x", "choose a run to compare"],
  ["c", "compare the two chosen runs"],
  ["t", "steps, or calls and cost"],
  ["n", "write a note on a run"],
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
// The parts of the page: name, address, and the names in addresses that belong to it.
const PARTS = served
  ? [
      ["Ask", "#/ask", ["ask"]],
      ["Runs", "#/", ["", "groups", "run", "compare"]],
      ["Sessions", "#/sessions", ["sessions"]],
    ]
  : [
      ["Runs", "#/", ["", "groups", "run", "compare"]],
      ["Batches", "#/batches", ["batches"]],
      ["Evaluations", "#/evals", ["evals", "eval"]],
      ["Plans", "#/plans", ["plans"]],
      ["Sessions", "#/sessions", ["sessions"]],
    ];
const links = source.embedded
  ? [h("span", { class: "muted" }, "one run, as a file")]
  : PARTS.map(([label, href]) => h("a", { href }, label));
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
    h("span", { class: "parts" }, links),
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

function pageOf(target, common) {
  switch (target.name) {
    case "ask":
      return new AskPage(common);
    case "run":
      return new RunPage(common);
    case "compare":
      return new ComparePage({ ...common, first: target.first, second: target.second });
    case "eval":
      return new EvaluationPage(common);
    case "evals":
      return new EvaluationsPage(common);
    case "batches":
      return new GroupsPage(common, { by: "batch", place: "#/batches", title: "Batches", one: "Batch" });
    case "sessions":
      return new GroupsPage(common, { by: "session", place: "#/sessions", title: "Sessions", one: "Session" });
    case "plans":
      return new GroupsPage(common, { by: "plans", place: "#/plans", title: "Runs with plans", one: "Run" });
    case "groups": {
      const by = Object.hasOwn(GROUPINGS, target.first) ? target.first : "task";
      const { label } = GROUPINGS[by];
      const one = label[0].toUpperCase() + label.slice(1);
      return new GroupsPage(common, { by, place: `#/groups/${by}`, title: `Runs by ${label}`, one });
    }
    default:
      return new RunsPage(common);
  }
}

async function route() {
  const target = read(location.hash || (served ? "#/ask" : ""));
  if (source.embedded && target.name !== "run")
    Object.assign(target, { name: "run", first: source.root, second: undefined });
  const key = target.name === "run" ? `run/${target.first}` : [target.name, target.first, target.second].join("/");
  if (page && key === address) {
    if (target.name === "run" && page.model) await page.turn({ step: target.second, query: target.query });
    return;
  }
  page?.close();
  if (page?.permalink) home = page.permalink; // Escape leads back to the list, as it was
  address = key;
  page = pageOf(target, { source, go, chosen, home, query: target.query, id: target.first });
  PARTS.forEach(([, , names], at) => {
    if (source.embedded) return;
    if (names.includes(target.name)) links[at].setAttribute("aria-current", "page");
    else links[at].removeAttribute("aria-current");
  });
  const here = page;
  content.replaceChildren(here.element);
  scrollTo(0, 0);
  try {
    await here.start({ step: target.second, query: target.query });
    document.title = `${here.title} · rlm`;
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
    if (event.key === "Escape" || (event.key === "Enter" && event.target.tagName !== "TEXTAREA")) {
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
