// A run, assembled from its events one by one: all at once, or as they arrive.

import { isReference } from "./data_source.js";

const PLAN_KINDS = [
  ...["plans_compared", "plan_selected", "plan_rejected", "plan_answered"],
  ...["plan_escalated", "operator_awaited", "escalation_answered"],
];

// The beginning of a text: the server sends [head, text], a file has the text or a reference.
function headOf(data, name) {
  const [head, text] = data.head ?? [null, data[name]];
  const start = head ?? (isReference(text) ? text.head : text);
  return typeof start === "string" ? start : "";
}

export class RunModel {
  constructor(summary) {
    this.last = 0;
    this.count = 0;
    this.iterations = [];
    this.byNumber = new Map();
    this.calls = new Map();
    this.asks = new Map();
    this.budgets = [];
    this.attempts = [];
    this.plans = [];
    this.waits = [];
    this.lost = [];
    this.approvals = new Set();
    this.trigger = null;
    this.interrupted = false;
    this.update(summary);
  }

  update(summary) {
    this.summary = summary;
    this.run = summary.run;
    this.descendants = summary.descendants;
    this.children = summary.descendants.filter((run) => run.parent === this.run.id);
    this.byCall = grouped(this.children);
  }

  get id() {
    return this.run.id;
  }

  // The run that has the answer: this one or, in a run with plans, that of the accepted plan.
  get answeredBy() {
    const id = this.summary.answered_by;
    return this.descendants.find((run) => run.id === id) ?? this.run;
  }

  get live() {
    return this.run.ending === "running";
  }

  get begin() {
    return this.run.started;
  }

  get end() {
    const last = Math.max(this.run.started + (this.run.duration || 0), this.lastTime ?? 0);
    return Math.max(this.run.ended ?? last, this.run.started + 0.001);
  }

  add(events) {
    for (const event of events) {
      if (event[0] <= this.last) continue;
      this.last = event[0];
      this.count += 1;
      this.lastTime = event[3];
      this.#take(event[0], event[2], event[3], event[4]);
    }
    return events.length;
  }

  #iteration(number, time, sequence) {
    let iteration = this.byNumber.get(number);
    if (!iteration) {
      iteration = {
        number,
        sequence,
        started: time,
        ended: null,
        title: "",
        asks: [],
        calls: [],
        cell: null,
        variables: null,
        history: null,
        budget: null,
        differs: null,
        compacted: false,
        failed: null,
        waits: [],
      };
      this.byNumber.set(number, iteration);
      this.iterations.push(iteration);
    }
    return iteration;
  }

  #take(sequence, kind, time, data) {
    const number = data.iteration;
    const here = Number.isInteger(number) && number > 0 ? this.#iteration(number, time, sequence) : null;
    if (here && time > (here.ended ?? 0)) here.ended = time;
    switch (kind) {
      case "model_asked":
      case "model_answered":
      case "model_failed":
        this.#ask(sequence, kind, time, data, here);
        break;
      case "model_waiting":
        this.#wait(time, data);
        break;
      case "not_recorded":
        this.lost.push({ sequence, time, kind: data.kind, iteration: number, why: data.not_kept });
        break;
      case "cell_started":
        if (here) here.cell = { sequence, started: time, ended: null };
        if (here && !here.title) here.title = headOf(data, "code");
        break;
      case "cell_ended":
        if (here) {
          here.cell = { ...(here.cell ?? { started: time }), end: sequence, ended: time };
          here.cell.ok = Boolean(data.success);
          here.cell.seconds = data.seconds;
          here.cell.limit = data.limit;
          here.cell.error = data.error;
        }
        break;
      case "call_started": {
        const call = { id: data.id, name: String(data.name), iteration: number, sequence, started: time, asks: [] };
        this.calls.set(data.id, call);
        here?.calls.push(call);
        break;
      }
      case "call_ended": {
        const call = this.calls.get(data.id);
        if (call) Object.assign(call, { end: sequence, ended: time, seconds: data.seconds, error: data.error });
        break;
      }
      case "variables":
        if (here) here.variables = sequence;
        break;
      case "history":
        if (here) {
          here.history = sequence;
          here.title = headOf(data, "reasoning") || here.title;
        }
        break;
      case "budget":
        this.budgets.push({ ...data, time });
        break;
      case "trigger_fired":
        this.trigger = { sequence, time, reason: data.reason, data: data.reason_data ?? {} };
        break;
      case "extraction_attempt":
        this.attempts.push({ sequence, time, number: data.number });
        break;
      case "replay_differs":
        if (here) here.differs = sequence;
        break;
      case "approval_requested":
        this.approvals.add(String(data.approval_id));
        break;
      case "approval_answered":
        this.approvals.delete(String(data.approval_id));
        break;
      case "files_written":
        this.written = Array.isArray(data.files) ? data.files : [];
        break;
      case "files_hashed":
        this.otherFiles = Array.isArray(data.different) ? data.different : [];
        break;
      case "compacted":
        if (here) here.compacted = true;
        break;
      case "run_interrupted":
        this.interrupted = true;
        break;
      default:
        if (PLAN_KINDS.includes(kind)) this.plans.push({ sequence, kind, time, data });
    }
  }

  #ask(sequence, kind, time, data, here) {
    let ask = this.asks.get(data.id);
    if (!ask) {
      ask = { id: data.id, role: "main", started: time, sequence, model: "", waits: [] };
      this.asks.set(data.id, ask);
      ask.role = data.role ?? "main";
      ask.iteration = data.iteration;
      // A request of a child run has the number of its parent's call.
      const call = ask.role === "sub" ? this.calls.get(data.call) : null;
      if (call) call.asks.push(ask);
      else if (here) here.asks.push(ask);
    }
    if (kind === "model_asked") {
      ask.asked = sequence;
      ask.model = data.model ?? "";
      return;
    }
    ask.answered = sequence;
    ask.ended = time;
    ask.seconds = data.seconds;
    ask.tokensIn = data.tokens_in ?? 0;
    ask.tokensOut = data.tokens_out ?? 0;
    ask.cost = data.cost_usd ?? null;
    ask.past = Boolean(data.past);
    ask.cached = Boolean(data.cached);
    ask.truncated = Boolean(data.truncated);
    if (kind === "model_failed") {
      ask.error = data.error_kind ?? "failed";
      if (here && ask.role === "main") here.failed = ask.error;
    }
  }

  // A wait for a provider: of a request, or of an adapter in the iteration under way.
  #wait(time, data) {
    const ask = this.asks.get(data.id);
    const here = this.byNumber.get(ask ? ask.iteration : this.iterations.at(-1)?.number);
    const wait = { started: time, seconds: Number(data.seconds) || 0, reason: String(data.reason ?? ""), model: data.model, ask };
    this.waits.push(wait);
    ask?.waits.push(wait);
    here?.waits.push(wait);
  }

  // The wait that goes on at a time, if the run still goes on.
  waitAt(now) {
    const wait = this.waits.at(-1);
    return this.live && wait && !wait.ask?.ended && wait.started + wait.seconds > now ? wait : null;
  }

  // The requests for plans, and for judgements of their answers.
  get planAsks() {
    return [...this.asks.values()].filter((ask) => ask.role === "planning" || ask.role === "judging");
  }

  get extractionAsks() {
    return [...this.asks.values()].filter((ask) => ask.role === "extraction");
  }
}

function grouped(children) {
  const groups = new Map();
  for (const child of children) groups.set(child.parent_call, [...(groups.get(child.parent_call) ?? []), child]);
  return groups;
}

// The tokens of requests, and their cost if it is known.
export function used(asks) {
  let tokens = 0;
  let cost = null;
  for (const ask of asks) {
    tokens += (ask.tokensIn ?? 0) + (ask.tokensOut ?? 0);
    if (ask.cost !== null && ask.cost !== undefined) cost = (cost ?? 0) + ask.cost;
  }
  return { tokens, cost };
}

// When a wait ended: as it was announced, or earlier with its request.
export function endOfWait(wait) {
  return Math.min(wait.started + wait.seconds, wait.ask?.ended ?? Infinity);
}

// The seconds of waits.
export function waited(waits) {
  return waits.reduce((sum, wait) => sum + Math.max(0, endOfWait(wait) - wait.started), 0);
}

// The number of cached replies as text; empty if there are none.
export function cached(asks) {
  const hits = asks.filter((ask) => ask.cached).length;
  return hits === 0 ? "" : hits === asks.length ? "cached" : `${hits} of ${asks.length} cached`;
}

export function plus(...parts) {
  const known = parts.filter((part) => part.cost !== null && part.cost !== undefined);
  return {
    tokens: parts.reduce((sum, part) => sum + (part.tokens ?? 0), 0),
    cost: known.length ? known.reduce((sum, part) => sum + part.cost, 0) : null,
  };
}

export function usedByRun(run) {
  return {
    own: { tokens: run.own_tokens_in + run.own_tokens_out, cost: run.own_cost_usd },
    total: { tokens: run.tokens, cost: run.cost_usd },
  };
}

export function usedByCall(model, call) {
  const own = used(call.asks);
  const children = model.byCall.get(call.id) ?? [];
  return { own, total: plus(own, ...children.map((child) => usedByRun(child).total)) };
}

export function usedByIteration(model, iteration) {
  const own = used(iteration.asks);
  return { own, total: plus(own, ...iteration.calls.map((call) => usedByCall(model, call).total)) };
}
