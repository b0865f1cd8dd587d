// A diff of two texts by lines.

const MOST = 600;

// Pairs [line of the first text, line of the second]; null if only the other text has the line.
export function paired(first, second) {
  const a = first.split("\n");
  const b = second.split("\n");
  if (a.length > MOST || b.length > MOST) return plainly(a, b);
  const wide = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * wide);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      longest[i * wide + j] =
        a[i] === b[j]
          ? longest[(i + 1) * wide + j + 1] + 1
          : Math.max(longest[(i + 1) * wide + j], longest[i * wide + j + 1]);
    }
  }
  const pairs = [];
  let left = [];
  let right = [];
  const settle = () => {
    for (let n = 0; n < Math.max(left.length, right.length); n += 1) pairs.push([left[n] ?? null, right[n] ?? null]);
    left = [];
    right = [];
  };
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      settle();
      pairs.push([a[i], b[j]]);
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && longest[(i + 1) * wide + j] >= longest[i * wide + j + 1])) {
      left.push(a[i]);
      i += 1;
    } else {
      right.push(b[j]);
      j += 1;
    }
  }
  settle();
  return pairs;
}

function plainly(a, b) {
  return Array.from({ length: Math.max(a.length, b.length) }, (_, index) => [a[index] ?? null, b[index] ?? null]);
}
