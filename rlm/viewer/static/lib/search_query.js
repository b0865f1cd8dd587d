// The search box: words, and conditions such as ending:failed, confidence<0.5, cost>0.01, duration>=2m.

const NUMBERS = {
  confidence: (row) => row.confidence,
  cost: (row) => row.cost_usd,
  duration: (row) => row.duration,
  iterations: (row) => row.iterations_used,
  tokens: (row) => row.tokens,
  score: (row) => row.score,
  length: (row) => row.length,
  epoch: (row) => row.epoch,
};
const TEXTS = ["ending", "reason", "model", "task", "name", "id", "suite", "batch", "item", "session", "day", "label", "note"];
const NAMES = [...TEXTS, ...Object.keys(NUMBERS)];
const SEARCHED = [
  ...["id", "name", "task", "model", "reason", "answer", "ending", "sample", "expected"],
  ...["batch", "item", "session", "label", "note"],
];
const UNITS = { ms: 0.001, s: 1, m: 60, min: 60, h: 3600, k: 1e3, K: 1e3, M: 1e6, "%": 0.01 };
const CONDITION = /^([a-z_]+)(:|<=|>=|<|>|=)(.+)$/i;

// The conditions, as the help lists them.
export const CONDITIONS = [
  ["ending:failed,extracted", "one of these endings: submitted, extracted, failed, running, unfinished, resumed"],
  ["model:mini  task:  id:  reason:", "a text that contains this"],
  ["confidence<0.5  confidence>=90%", "the confidence of the answer"],
  ["cost>0.01", "US dollars"],
  ["duration>=2m", "ms, s, m or h"],
  ["tokens>10k  iterations>5", "k and M are thousands and millions"],
  ["score<1", "the score in an evaluation"],
  ["suite:  length:64k  epoch:2", "samples of an evaluation"],
  ["batch:  item:  session:  day:2026-05", "where and when a run belongs"],
  ["label:wrong  note:", "labels and notes on runs"],
  ['"two words"', "a text with a space in it"],
];

function number(text) {
  const match = /^\$?(\d*\.?\d+)(ms|min|s|m|h|k|K|M|%)?$/.exec(text);
  return match ? Number(match[1]) * (UNITS[match[2]] ?? 1) : null;
}

function textCondition(name, text) {
  const options = text.toLowerCase().split(",");
  return (row) => {
    const value = String(row[name] ?? "").toLowerCase();
    return options.some((option) => (name === "ending" ? value === option : value.includes(option)));
  };
}

function numberCondition(name, sign, limit) {
  const compare = {
    "<": (value) => value < limit,
    ">": (value) => value > limit,
    "<=": (value) => value <= limit,
    ">=": (value) => value >= limit,
    "=": (value) => value === limit,
    ":": (value) => value === limit,
  }[sign];
  return (row) => {
    const value = NUMBERS[name](row);
    return value !== null && value !== undefined && compare(value);
  };
}

function textSearch(word) {
  const part = word.toLowerCase();
  return (row) => SEARCHED.some((name) => row[name] && String(row[name]).toLowerCase().includes(part));
}

// The edit distance of two names.
function distance(first, second) {
  let previous = Array.from({ length: second.length + 1 }, (_, index) => index);
  for (let i = 1; i <= first.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= second.length; j += 1) {
      const cost = first[i - 1] === second[j - 1] ? 0 : 1;
      row.push(Math.min(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + cost));
    }
    previous = row;
  }
  return previous[second.length];
}

function nearest(name) {
  const [best] = NAMES.map((known) => [distance(name, known), known]).sort((a, b) => a[0] - b[0]);
  return best[0] <= 2 ? best[1] : null;
}

// A test for one word, and the problem to report if no row passes it.
function parseWord(word) {
  const [, given, sign, text] = CONDITION.exec(word) ?? [];
  const name = given?.toLowerCase();
  if (name && Object.hasOwn(NUMBERS, name)) {
    const limit = number(text);
    if (limit !== null) return { test: numberCondition(name, sign, limit) };
    return { test: textSearch(word), problem: `“${text}” is not a number: ${name} takes 0.5, 50%, 10k or 2m.` };
  }
  if (TEXTS.includes(name) && sign === ":") return { test: textCondition(name, text) };
  if (TEXTS.includes(name)) return { test: textSearch(word), problem: `${name} takes a colon: ${name}:${text}` };
  if (name) {
    const near = nearest(name);
    const advice = near ? `Did you mean ${near}${sign}${text}?` : "Press ? for the list.";
    return { test: textSearch(word), problem: `There is no condition “${name}”. ${advice}` };
  }
  return { test: textSearch(word) };
}

export function words(text) {
  return (text.match(/(?:[^\s"]+|"[^"]*"?)+/g) ?? []).map((word) => word.replaceAll('"', ""));
}

// The rows that match a text, and the problems of words that no row matches: a word that looks like a condition but is
// none is searched as text.
export function search(rows, text) {
  const parsed = words(text).map(parseWord);
  return {
    matches: rows.filter((row) => parsed.every(({ test }) => test(row))),
    problems: parsed.filter(({ test, problem }) => problem && !rows.some(test)).map(({ problem }) => problem),
  };
}

// The same text with the conditions on one name replaced.
export function replaced(text, name, conditions) {
  const others = words(text).filter((word) => CONDITION.exec(word)?.[1].toLowerCase() !== name);
  return [...others.map((word) => (/\s/.test(word) ? `"${word}"` : word)), ...conditions].join(" ");
}
