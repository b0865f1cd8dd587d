// The timeline of a run as a tree of spans, and the rows in which they are drawn.

import { endOfWait } from "./run_model.js";

export const MAX_ROWS = 16;

const MIN_KERNEL_START_S = 0.002;

function span(kind, label, started, ended, more = {}) {
  return { kind, label, started, ended: Math.max(ended ?? started, started), children: [], ...more };
}

function shortModelName(ask) {
  return String(ask.model || ask.role)
    .split("/")
    .pop();
}

// The name of a child run; a run of a plan has the plan's name.
function runName(run) {
  return (run.parent && run.task) || run.name || run.id;
}

function waitSpan(model, wait) {
  const more = { run: model.id, iteration: wait.ask?.iteration, reason: wait.reason };
  return span("wait", wait.reason, wait.started, endOfWait(wait), more);
}

function askSpan(model, ask, now) {
  const kind = ["sub", "extraction"].includes(ask.role) ? ask.role : "model";
  const made = span(kind, shortModelName(ask), ask.started, ask.ended ?? now, {
    run: model.id,
    iteration: ask.iteration,
    error: ask.error,
    tokens: (ask.tokensIn ?? 0) + (ask.tokensOut ?? 0),
    cost: ask.cost,
    cached: ask.cached,
  });
  made.children.push(...ask.waits.map((wait) => waitSpan(model, wait)));
  return made;
}

// The cell of an iteration, and before the first one of a run the start of its kernel: `cell_started` comes before both.
function cellSpans(model, iteration, first) {
  const { cell } = iteration;
  const ended = cell.ended ?? iteration.ended;
  const more = { run: model.id, iteration: iteration.number };
  let started = cell.started;
  if (first && cell.ended !== null && Number.isFinite(cell.seconds)) {
    const calls = iteration.calls.map((call) => call.started);
    started = Math.max(cell.started, Math.min(cell.ended - cell.seconds, ...calls));
  }
  const spans = [span("cell", "cell", started, ended, { ...more, error: cell.ok === false })];
  if (started - cell.started >= MIN_KERNEL_START_S)
    spans.unshift(span("kernel", "kernel start", cell.started, started, more));
  return spans;
}

// The spans of one run as a tree. `inner(id)` returns the model of a child run if it is loaded.
export function spansOf(model, inner, now = model.end) {
  const root = span("run", runName(model.run), model.begin, model.live ? now : model.end, {
    run: model.id,
    about: model.run,
  });
  const childSpan = (child) => {
    const loaded = inner(child.id);
    if (loaded) return spansOf(loaded, inner, now);
    return span("run", runName(child), child.started, child.started + child.duration, { run: child.id, about: child });
  };
  const firstCell = model.iterations.find((iteration) => iteration.cell);
  for (const iteration of model.iterations) {
    const ended = iteration.history === null && model.live ? now : iteration.ended;
    const step = span("iteration", String(iteration.number), iteration.started, ended, {
      run: model.id,
      iteration: iteration.number,
    });
    root.children.push(step);
    for (const ask of iteration.asks) step.children.push(askSpan(model, ask, now));
    step.children.push(...iteration.waits.filter((wait) => !wait.ask).map((wait) => waitSpan(model, wait)));
    const cells = iteration.cell ? cellSpans(model, iteration, iteration === firstCell) : [];
    step.children.push(...cells);
    for (const call of iteration.calls) {
      const callSpan = span("call", call.name, call.started, call.ended ?? iteration.ended, {
        run: model.id,
        iteration: iteration.number,
        error: Boolean(call.error),
      });
      (cells.at(-1) ?? step).children.push(callSpan);
      for (const ask of call.asks) callSpan.children.push(askSpan(model, ask, now));
      for (const child of model.byCall.get(call.id) ?? []) callSpan.children.push(childSpan(child));
    }
  }
  for (const child of model.byCall.get(null) ?? []) root.children.push(childSpan(child));
  for (const ask of [...model.planAsks, ...model.extractionAsks]) root.children.push(askSpan(model, ask, now));
  return root;
}

// Each span in the first row below its parent that is free at that time.
export function arranged(root) {
  const spans = [];
  const free = [];
  const place = (node, least) => {
    let row = least;
    while (row < MAX_ROWS - 1 && (free[row] ?? -Infinity) > node.started + 1e-6) row += 1;
    free[row] = Math.max(free[row] ?? -Infinity, node.ended);
    node.row = row;
    spans.push(node);
    node.children.sort((a, b) => a.started - b.started);
    for (const child of node.children) place(child, Math.min(row + 1, MAX_ROWS - 1));
  };
  place(root, 0);
  return { spans, rows: spans.reduce((most, node) => Math.max(most, node.row + 1), 1) };
}
