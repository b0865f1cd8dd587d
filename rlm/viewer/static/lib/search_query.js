// The search box: words, and conditions such as ending:failed, confidence<0.5, cost>0.01, duration>=2m.
// Samples of an evaluation have a suite, a score, a length and an epoch, too.

const CONDITION =
  /^(ending|reason|model|task|id|suite|confidence|cost|duration|iterations|tokens|score|length|epoch)(:|<=|>=|<|>|=)(.+)$/i;
const UNITS = { ms: 0.001, s: 1, m: 60, min: 60, h: 3600, k: 1e3, K: 1e3, M: 1e6 };
const NUMBERS = {
  confidence: (run) => run.confidence,
  cost: (run) => run.cost_usd,
  duration: (run) => run.duration,
  iterations: (run) => run.iterations_used,
  tokens: (run) => run.tokens,
  score: (run) => run.score,
  length: (run) => run.length,
  epoch: (run) => run.epoch,
};

function number(text) {
  const found = /^\$?(\d*\.?\d+)(ms|min|s|m|h|k|K|M|%)?$/.exec(text);
  if (!found) return null;
  const value = Number(found[1]);
  return found[2] === "%" ? value / 100 : value * (UNITS[found[2]] ?? 1);
}

function condition(name, sign, text) {
  if (!NUMBERS[name]) {
    const wanted = text.toLowerCase().split(",");
    const value = (run) => String(run[name] ?? "").toLowerCase();
    return (run) => wanted.some((one) => (name === "ending" ? value(run) === one : value(run).includes(one)));
  }
  const limit = number(text);
  if (limit === null) return null;
  const holds = {
    "<": (n) => n < limit,
    ">": (n) => n > limit,
    "<=": (n) => n <= limit,
    ">=": (n) => n >= limit,
    "=": (n) => n === limit,
    ":": (n) => n === limit,
  }[sign];
  return (run) => {
    const n = NUMBERS[name](run);
    return n !== null && n !== undefined && holds(n);
  };
}

export function words(text) {
  return (text.match(/(?:[^\s"]+|"[^"]*"?)+/g) ?? []).map((one) => one.replaceAll('"', ""));
}

// A function that says of a run whether it is meant.
export function reader(text) {
  const tests = [];
  for (const word of words(text)) {
    const found = CONDITION.exec(word);
    const test = found && condition(found[1].toLowerCase(), found[2], found[3]);
    if (test) tests.push(test);
    else {
      const part = word.toLowerCase();
      tests.push((run) =>
        [run.id, run.name, run.task, run.model, run.reason, run.answer, run.ending, run.sample, run.expected].some(
          (one) => one && String(one).toLowerCase().includes(part),
        ),
      );
    }
  }
  return (run) => tests.every((test) => test(run));
}

// The same text with the conditions on one name replaced.
export function replaced(text, name, conditions) {
  const kept = words(text).filter((one) => CONDITION.exec(one)?.[1].toLowerCase() !== name);
  return [...kept.map((one) => (/\s/.test(one) ? `"${one}"` : one)), ...conditions].join(" ");
}
