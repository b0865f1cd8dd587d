// Filters as menus; each option stands for conditions in the search box. And the menu that groups a list.

import { h } from "../lib/dom.js";
import { GROUPINGS } from "../lib/run_groups.js";

export const CHOICES = [
  [
    "confidence",
    "Confidence",
    [
      ["any", []],
      ["90% and up", ["confidence>=0.9"]],
      ["50 to 90%", ["confidence>=0.5", "confidence<0.9"]],
      ["below 50%", ["confidence<0.5"]],
    ],
  ],
  [
    "cost",
    "Cost",
    [
      ["any", []],
      ["over $0.01", ["cost>0.01"]],
      ["over $0.10", ["cost>0.1"]],
      ["over $1", ["cost>1"]],
    ],
  ],
  [
    "duration",
    "Time",
    [
      ["any", []],
      ["under 10 s", ["duration<10s"]],
      ["over 10 s", ["duration>10s"]],
      ["over 1 min", ["duration>1m"]],
      ["over 10 min", ["duration>10m"]],
    ],
  ],
  [
    "reason",
    "Reason",
    [
      ["any", []],
      ["iterations", ["reason:iterations"]],
      ["LLM calls", ["reason:llm"]],
      ["time", ["reason:seconds,time"]],
      ["tokens", ["reason:tokens"]],
      ["cost", ["reason:cost,$"]],
      ["errors", ["reason:errors,error"]],
    ],
  ],
];

// A menu of the groupings; `choose` gets the name of one, or an empty text for the list.
export function groupMenu(chosen, choose) {
  const select = h(
    "select",
    { "aria-label": "Group", "data-name": "group", on: { change: (event) => choose(event.target.value) } },
    h("option", { value: "" }, chosen ? "No groups" : "Group by"),
    ["task", "model", "day"].map((by) => h("option", { value: by }, `By ${GROUPINGS[by].label}`)),
  );
  select.value = chosen;
  select.classList.toggle("set", Boolean(chosen));
  return select;
}
