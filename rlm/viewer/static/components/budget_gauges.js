// Budgets: usage of each limit, its growth, and where the trigger fired.

import { h, svg } from "../lib/dom.js";
import { count, dollars, seconds, short } from "../lib/format.js";

const GAUGES = [
  { name: "iterations", limit: "max_iterations", label: "Iterations", reason: "max_iterations", say: count },
  { name: "llm_calls", limit: "max_llm_calls", label: "LLM calls", reason: "max_llm_calls", say: count },
  { name: "seconds", limit: "max_duration", label: "Time", reason: "timeout", say: seconds },
  { name: "tokens", limit: "max_tokens", label: "Tokens", reason: "max_tokens", say: short },
  { name: "cost_usd", limit: "max_cost_usd", label: "Cost", reason: "max_cost", say: dollars },
];
const WIDTH = 160;
const HEIGHT = 34;
const MOST_POINTS = 120;

function finalUse(model) {
  const run = model.run;
  return {
    iterations: run.iterations_used || model.answeredBy.iterations_used,
    llm_calls: run.llm_calls,
    seconds: run.duration,
    tokens: run.tokens,
    cost_usd: run.cost_usd,
  };
}

function limits(model) {
  const known = model.summary.beginning.trigger ?? {};
  return { ...known, ...(model.budgets.at(-1) ?? {}) };
}

function numeric(value) {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

function chart(model, gauge, points, top, fired) {
  const begin = model.begin;
  const span = Math.max(model.end - begin, 1e-6);
  const x = (time) => (Math.min(1, Math.max(0, (time - begin) / span)) * WIDTH).toFixed(1);
  const y = (value) => (HEIGHT - 2 - (top > 0 ? Math.min(1, value / top) : 0) * (HEIGHT - 5)).toFixed(1);
  const step = Math.max(1, Math.ceil(points.length / MOST_POINTS));
  const sampled = points.filter((_, index) => index % step === 0 || index === points.length - 1);
  let path = `M0 ${y(0)}`;
  for (const [time, value] of sampled) path += ` H${x(time)} V${y(value)}`;
  const area = `${path} V${HEIGHT} H0 Z`;
  const at = fired && Number(x(fired.time));
  return svg(
    "svg",
    { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { class: "spark-area", d: area }),
    svg("path", { class: "spark-line", d: path, "vector-effect": "non-scaling-stroke" }),
    fired &&
      svg("line", { class: "spark-fired", x1: at, x2: at, y1: 0, y2: HEIGHT, "vector-effect": "non-scaling-stroke" }),
  );
}

export function gauges(model) {
  const end = finalUse(model);
  const bounds = limits(model);
  const fired = model.trigger;
  const before = fired && model.budgets.filter((budget) => budget.time <= fired.time).at(-1);
  const cards = GAUGES.map((gauge) => {
    const now = numeric(end[gauge.name]);
    const limit = numeric(bounds[gauge.limit]);
    if (now === null && limit === null) return null;
    const points = model.budgets.map((budget) => [budget.time, numeric(budget[gauge.name]) ?? 0]);
    points.push([model.end, now ?? points.at(-1)?.[1] ?? 0]);
    const value = now ?? 0;
    const cause = Boolean(fired) && fired.data.kind === gauge.reason;
    let at = numeric(before?.[gauge.name]);
    if (fired && gauge.name === "seconds") at = numeric(fired.data.elapsed) ?? fired.time - model.begin;
    if (cause)
      at =
        numeric(
          fired.data[
            {
              iterations: "iterations",
              llm_calls: "calls",
              seconds: "elapsed",
              tokens: "tokens",
              cost_usd: "cost_usd",
            }[gauge.name]
          ],
        ) ?? at;
    const part = limit ? Math.min(1, value / limit) : null;
    const text = limit !== null ? `${gauge.say(value)} of ${gauge.say(limit)}` : gauge.say(value);
    return h(
      "div",
      {
        class: `gauge ${cause ? "cause" : ""}`,
        "data-gauge": gauge.name,
        role: "group",
        "aria-label": `${gauge.label}: ${text}${cause ? "; the trigger fired here" : ""}`,
      },
      h(
        "div",
        { class: "gauge-head" },
        h("span", { class: "gauge-label" }, gauge.label),
        cause && h("span", { class: "fired-note" }, "trigger"),
      ),
      h(
        "div",
        { class: "gauge-value" },
        h("b", {}, gauge.say(value)),
        limit !== null && h("span", {}, ` of ${gauge.say(limit)}`),
      ),
      h(
        "div",
        { class: "bar" },
        part !== null &&
          h("span", {
            class: `bar-fill ${part >= 0.95 ? "full" : ""}`,
            style: { width: `${(part * 100).toFixed(2)}%` },
          }),
        fired && at !== null && limit
          ? h("span", {
              class: "bar-fired",
              title: `The trigger fired at ${gauge.say(at)}`,
              style: { left: `${(Math.min(1, at / limit) * 100).toFixed(2)}%` },
            })
          : null,
      ),
      chart(
        model,
        gauge,
        points,
        limit ? Math.min(limit, Math.max(value, points.at(-1)[1]) * 1.6) : Math.max(value, 1e-9),
        fired,
      ),
    );
  });
  return h("div", { class: "gauges" }, cards);
}
