// What took how long in a run, as a tree of spans, and the rows in which they are drawn.

export const MOST_ROWS = 16;

function span(kind, label, started, ended, more = {}) {
  return { kind, label, started, ended: Math.max(ended ?? started, started), children: [], ...more };
}

function shortModel(ask) {
  return String(ask.model || ask.role)
    .split("/")
    .pop();
}

// A run inside another one; the run of a plan has the plan's name.
function nameOf(run) {
  return (run.parent && run.task) || run.name || run.id;
}

// The spans of one run as a tree. `inner(id)` gives the model of a child run, if it is loaded.
export function spansOf(model, inner, now = model.end) {
  const root = span("run", nameOf(model.run), model.begin, model.live ? now : model.end, {
    run: model.id,
    about: model.run,
  });
  const add = (parent, ask) =>
    parent.children.push(
      span(["sub", "extraction"].includes(ask.role) ? ask.role : "model", shortModel(ask), ask.started, ask.ended ?? now, {
        run: model.id,
        iteration: ask.iteration,
        error: ask.error,
        tokens: (ask.tokensIn ?? 0) + (ask.tokensOut ?? 0),
        cost: ask.cost,
        cached: ask.cached,
      }),
    );
  const below = (child) => {
    const loaded = inner(child.id);
    if (loaded) return spansOf(loaded, inner, now);
    return span("run", nameOf(child), child.started, child.started + child.duration, { run: child.id, about: child });
  };
  for (const one of model.iterations) {
    const step = span(
      "iteration",
      String(one.number),
      one.started,
      one.history === null && model.live ? now : one.ended,
      { run: model.id, iteration: one.number },
    );
    root.children.push(step);
    for (const ask of one.asks) add(step, ask);
    const cell =
      one.cell &&
      span("cell", "cell", one.cell.started, one.cell.ended ?? one.ended, {
        run: model.id,
        iteration: one.number,
        error: one.cell.ok === false,
      });
    if (cell) step.children.push(cell);
    for (const call of one.calls) {
      const made = span("call", call.name, call.started, call.ended ?? one.ended, {
        run: model.id,
        iteration: one.number,
        error: Boolean(call.error),
      });
      (cell ?? step).children.push(made);
      for (const ask of call.asks) add(made, ask);
      for (const child of model.byCall.get(call.id) ?? []) made.children.push(below(child));
    }
  }
  for (const child of model.byCall.get(null) ?? []) root.children.push(below(child));
  for (const ask of model.planAsks) add(root, ask);
  for (const ask of model.extractionAsks) add(root, ask);
  return root;
}

// Rows: under the parent, in the first row that is free at that time.
export function laid(root) {
  const made = [];
  const free = [];
  const place = (one, least) => {
    let row = least;
    while (row < MOST_ROWS - 1 && (free[row] ?? -Infinity) > one.started + 1e-6) row += 1;
    free[row] = Math.max(free[row] ?? -Infinity, one.ended);
    one.row = row;
    made.push(one);
    one.children.sort((a, b) => a.started - b.started);
    for (const child of one.children) place(child, Math.min(row + 1, MOST_ROWS - 1));
  };
  place(root, 0);
  return { spans: made, rows: made.reduce((most, one) => Math.max(most, one.row + 1), 1) };
}
