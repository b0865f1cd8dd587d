// Search in a run that is part of a file: what the server does in `run_search.py`.

const MOST = 300;
const AROUND = 60;

// The fields that are searched, and the part of a step in which each is shown.
export const SEARCHED = {
  run_started: { inputs: "inputs" },
  model_asked: { turns: "prompt", system: "prompt" },
  model_answered: { text: "reply" },
  model_failed: { message: "reply" },
  cell_started: { code: "code" },
  cell_ended: { output: "output", error: "output" },
  call_started: { name: "calls", arguments: "calls" },
  call_ended: { answer: "calls", error: "calls" },
  variables: { added: "variables", changed: "variables" },
  history: { reasoning: "reasoning", remarks: "observation", told: "observation" },
  trigger_fired: { reason: "reason" },
  extraction_attempt: { text: "answer", prompt: "prompt", problems: "problems" },
  run_ended: { result: "answer" },
};

function* textsIn(value) {
  if (typeof value === "string") yield value;
  else if (Array.isArray(value)) for (const item of value) yield* textsIn(item);
  else if (value !== null && typeof value === "object") {
    if (typeof value.$body === "string") yield value;
    else for (const item of Object.values(value)) yield* textsIn(item);
  }
}

function points(text) {
  return [...text].length;
}

function placeIn(text, wanted) {
  const lower = text.toLowerCase();
  const at = lower.indexOf(wanted);
  if (at < 0 || lower.length !== text.length) return null;
  const end = at + wanted.length;
  const around = [text.slice(Math.max(0, at - AROUND), at), text.slice(at, end), text.slice(end, end + AROUND)];
  const start = points(text.slice(0, at)); // Python counts code points
  return { around, span: [start, start + points(around[1])], more: lower.split(wanted).length - 2 };
}

// The places of a text in the events [sequence, parent, kind, time, data] of a run; `blob` returns a text by its hash.
export function searchEvents(events, text, blob) {
  const wanted = text.toLowerCase();
  const places = [];
  const steps = new Map();
  let attempts = 0;
  const stepOf = (kind, data) => {
    if (kind === "extraction_attempt") {
      attempts += 1;
      return `attempt-${data.number}`;
    }
    if (kind === "trigger_fired") return "trigger";
    if (kind === "model_answered" || kind === "model_failed") return steps.get(data.id) ?? "start";
    const step = Number.isInteger(data.iteration) ? String(data.iteration) : null;
    if (kind !== "model_asked") return step ?? "start";
    steps.set(data.id, step ?? (data.role === "extraction" ? `attempt-${attempts + 1}` : "start"));
    return steps.get(data.id);
  };
  for (const [, , kind, , data] of events) {
    const parts = Object.hasOwn(SEARCHED, kind) ? SEARCHED[kind] : null;
    if (!parts) continue;
    const step = stepOf(kind, data);
    for (const [field, part] of Object.entries(parts)) {
      const value = kind === "run_ended" ? data[field]?.outputs : data[field];
      for (const item of textsIn(value)) {
        const place = placeIn(typeof item === "string" ? item : blob(item.$body), wanted);
        if (place) places.push({ step, part, ...place });
        if (places.length >= MOST) return { places, more: true };
      }
    }
  }
  return { places, more: false };
}
