// Numbers, times and sizes as text, with their units.

export function seconds(value) {
  if (value === null || value === undefined || Number.isNaN(Number(value))) return "–";
  const n = Number(value);
  if (n < 0.0005) return "0 ms";
  if (n < 1) return `${Math.round(n * 1000)} ms`;
  if (n < 10) return `${n.toFixed(1)} s`;
  if (n < 60) return `${Math.round(n)} s`;
  const all = Math.round(n);
  const pad = (value) => String(value).padStart(2, "0");
  if (all < 3600) return `${Math.floor(all / 60)}:${pad(all % 60)} min`;
  return `${Math.floor(all / 3600)}:${pad(Math.floor((all % 3600) / 60))} h`;
}

export function dollars(value) {
  if (value === null || value === undefined) return "–";
  const n = Number(value);
  if (n === 0) return "$0";
  if (n < 0.001) return `$${n.toFixed(Math.min(12, 1 - Math.floor(Math.log10(n))))}`; // as in rlm/text.py
  return n < 1 && Math.round(n * 1e4) % 100 ? `$${n.toFixed(4)}` : `$${n.toFixed(2)}`;
}

export function count(value) {
  return value === null || value === undefined
    ? "–"
    : String(Math.round(Number(value))).replace(/\B(?=(\d{3})+$)/g, ",");
}

export function short(value) {
  if (value === null || value === undefined) return "–";
  const n = Number(value);
  if (n < 1000) return String(Math.round(n));
  if (n < 1e6) return `${(n / 1e3).toFixed(n < 1e4 ? 1 : 0)}k`;
  return `${(n / 1e6).toFixed(1)}M`;
}

// A length in characters: 64k, 1M, 1,234.
export function length(value) {
  const n = Number(value);
  if (n >= 1e6 && n % 1e5 === 0) return `${n / 1e6}M`;
  return n >= 1e3 && n % 100 === 0 ? `${n / 1e3}k` : count(n);
}

// Bytes, as the command line writes them: MB is 1,000,000; MiB is written of exactly so much.
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const n = Number(value);
  for (const [index, unit] of ["KiB", "MiB", "GiB", "TiB"].entries()) {
    const whole = n / 1024 ** (index + 1);
    if (Number.isInteger(whole) && whole > 0 && whole < 1024) return `${whole} ${unit}`;
  }
  const power = Math.max(0, Math.min(4, Math.floor(Math.log10(Math.max(1, n)) / 3)));
  return power === 0 ? `${n} B` : `${(n / 1000 ** power).toFixed(1)} ${["B", "KB", "MB", "GB", "TB"][power]}`;
}

const QUANTITIES = [
  [/_bytes$/, bytes],
  [/seconds$|duration|timeout|elapsed/, seconds],
  [/_usd$/, dollars],
  [/confidence/, score],
];

// The value of a setting or a limit with its unit, which its name tells; null if it is not a number.
export function quantity(name, value) {
  if (typeof value !== "number") return null;
  const unit = QUANTITIES.find(([pattern]) => pattern.test(name));
  if (unit) return unit[1](value);
  return Number.isInteger(value) ? count(value) : String(value);
}

// The name of a setting as words, without the unit that its value has.
export function label(name) {
  return name.replace(/_(bytes|seconds|usd)$/, (unit) => ({ _seconds: "_time", _bytes: "_size", _usd: "" })[unit]).replaceAll("_", " ");
}

export function plural(n, singular, pluralForm = `${singular}s`) {
  return `${count(n)} ${n === 1 ? singular : pluralForm}`;
}

export function clock(time) {
  return new Date(time * 1000).toLocaleString(undefined, {
    year: "numeric",
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });
}

// The time of day.
export function time(at) {
  return new Date(at * 1000).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

export function ago(time, now = Date.now() / 1000) {
  const past = now - time;
  if (past < 60) return "just now";
  if (past < 3600) return `${Math.floor(past / 60)} min ago`;
  if (past < 86400) return `${Math.floor(past / 3600)} h ago`;
  if (past < 7 * 86400) return plural(Math.floor(past / 86400), "day") + " ago";
  return new Date(time * 1000).toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
}

// A confidence or a score, as the command line writes it.
export function score(value) {
  return value === null || value === undefined ? "–" : Number(value).toFixed(2);
}

// The width of a bar.
export function percent(value) {
  return `${Math.round(Number(value) * 100)}%`;
}

// The name of a model without its provider.
export function modelName(model) {
  return String(model ?? "").split("/").pop();
}

export function titleOf(run) {
  const task = run.task
    ? String(run.task)
        .split("/")
        .pop()
        .replace(/\.ya?ml$/, "")
    : "";
  return task || run.name || run.id;
}
