// Runs by task, model, day, batch, session, or by the run with plans that tried them: endings, confidence, right answers, usage.

import { titleOf } from "./format.js";

function quoted(text) {
  return /\s/.test(text) ? `"${text.replaceAll('"', "")}"` : text.replaceAll('"', "");
}

// The day of a run, in the time zone of the browser.
export function dayOf(run) {
  const date = new Date(run.started * 1000);
  const two = (number) => String(number).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

function fileName(path) {
  return String(path).split("/").pop();
}

// By what runs can be grouped: the key of a run (null: it is in no group), the label of a group, its second line, and the
// search condition of its runs.
export const GROUPINGS = {
  task: {
    label: "task",
    key: (run) => run.task ?? run.name,
    title: (key, [run]) => titleOf(run),
    sub: (key) => key,
    condition: (key, [run]) => `${run.task ? "task" : "name"}:${quoted(key)}`,
  },
  model: {
    label: "model",
    key: (run) => run.model ?? "unknown",
    title: (key) => key,
    sub: () => "",
    condition: (key) => `model:${quoted(key)}`,
  },
  day: { label: "day", key: dayOf, title: (key) => key, sub: () => "", condition: (key) => `day:${key}` },
  batch: {
    label: "batch",
    key: (run) => run.batch ?? null,
    title: (key) => fileName(key),
    sub: (key) => key,
    condition: (key) => `batch:${quoted(key)}`,
  },
  session: {
    label: "session",
    key: (run) => run.session ?? null,
    title: (key, runs) => titleOf(runs.reduce((first, run) => (run.started < first.started ? run : first))),
    sub: (key) => key,
    condition: (key) => `session:${quoted(key)}`,
  },
};

// Whether the answer of a run is right: as a label says, or its score in an evaluation; null if nobody knows.
export function isRight(run) {
  if (run.labels?.includes("right")) return true;
  if (run.labels?.includes("wrong")) return false;
  return typeof run.score === "number" ? run.score >= 1 - 1e-9 : null;
}

// The confidence of an answer; null if there is none: SUBMIT alone says nothing.
export function confidenceOf(run) {
  const none = run.ending === "failed" || (run.ending === "submitted" && run.confidence === 1);
  return none ? null : (run.confidence ?? null);
}

function mean(values) {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}

function known(values) {
  return values.filter((value) => value !== null && value !== undefined);
}

// The figures of several runs.
export function figuresOf(runs) {
  const endings = {};
  for (const run of runs) endings[run.ending] = (endings[run.ending] ?? 0) + 1;
  const costs = known(runs.map((run) => run.cost_usd));
  const right = known(runs.map(isRight));
  return {
    runs,
    endings,
    confidence: mean(known(runs.map(confidenceOf))),
    right: mean(right.map(Number)),
    judged: right.length,
    cost: costs.length ? costs.reduce((sum, cost) => sum + cost, 0) : null,
    tokens: runs.reduce((sum, run) => sum + run.tokens, 0),
    duration: mean(runs.map((run) => run.duration)),
    started: Math.max(...runs.map((run) => run.started)),
    items: new Set(known(runs.map((run) => run.item))).size,
  };
}

// The groups of runs under one of the groupings.
export function groupsOf(runs, by) {
  const grouping = GROUPINGS[by];
  const groups = new Map();
  for (const run of runs) {
    const key = grouping.key(run);
    if (key === null) continue;
    const group = groups.get(key);
    if (group) group.push(run);
    else groups.set(key, [run]);
  }
  return [...groups].map(([key, members]) => ({
    key,
    title: grouping.title(key, members),
    sub: grouping.sub(key, members),
    condition: grouping.condition(key, members),
    ...figuresOf(members),
  }));
}

// The runs with plans: each with the runs of its plans.
export function planGroups(runs) {
  const tried = new Map();
  for (const run of runs) {
    if (!run.parent || !String(run.task ?? "").startsWith("plan: ")) continue;
    tried.set(run.parent, [...(tried.get(run.parent) ?? []), run]);
  }
  return runs
    .filter((run) => tried.has(run.id))
    .map((run) => {
      const plans = tried.get(run.id);
      const names = plans.map((plan) => plan.task.slice("plan: ".length));
      return { ...figuresOf(plans), ...own(run), key: run.id, title: titleOf(run), sub: names.join(", "), run, plans };
    });
}

// What a run with plans has itself: its cost contains that of its plans.
function own(run) {
  const right = isRight(run);
  return {
    confidence: confidenceOf(run),
    right: right === null ? null : Number(right),
    judged: right === null ? 0 : 1,
    cost: run.cost_usd,
    tokens: run.tokens,
    duration: run.duration,
    started: run.started,
  };
}
