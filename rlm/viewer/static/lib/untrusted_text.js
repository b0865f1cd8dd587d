// Untrusted text: invisible characters, and those that change the direction of text, are shown as small marks.

import { h } from "./dom.js";

// Escape sequences; controls but for tab and newline; soft hyphens, joiners, marks and overrides of direction; line
// separators; variation and tag characters; halves of surrogate pairs.
const ODD = new RegExp(
  "\\u001b\\[[0-9;?]*[ -/]*[@-~]" +
    "|[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5]+" +
    "|[\\u180b-\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0e]+" +
    "|[\\ufeff\\uffa0\\ufff0-\\ufffb]+" +
    "|\\r(?!\\n)|(?:\\udb40[\\udc00-\\udfff])+" +
    "|[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]",
  "g",
);
const MOST_MARKS = 12;

function mark(match) {
  const points = [...match];
  const names = points.slice(0, MOST_MARKS).map((point) => {
    const code = point.codePointAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    if (code === 0x7f) return "\u2421";
    if (code < 0x7f) return point;
    return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  });
  const more = points.length > MOST_MARKS ? `\u2026\u00d7${points.length}` : "";
  return h("span", { class: "odd", title: "invisible characters" }, names.join("") + more);
}

// The text as a fragment.
export function shown(text) {
  const fragment = document.createDocumentFragment();
  let from = 0;
  ODD.lastIndex = 0;
  for (const match of String(text).matchAll(ODD)) {
    if (match.index > from) fragment.append(text.slice(from, match.index));
    fragment.append(mark(match[0]));
    from = match.index + match[0].length;
  }
  if (from < text.length) fragment.append(text.slice(from));
  return fragment;
}

// The text as one line of limited length, for lists.
export function line(text, most = 160) {
  const flat = String(text ?? "")
    .replace(/\s+/g, " ")
    .trim();
  return shown(flat.length > most ? `${flat.slice(0, most)}\u2026` : flat);
}

// The index of the n-th code point in a string: Python counts code points, JavaScript UTF-16 units.
export function indexOf(text, characters) {
  if (!/[\ud800-\udbff]/.test(text)) return Math.min(characters, text.length);
  let index = 0;
  for (let left = characters; left > 0 && index < text.length; left -= 1) {
    index += text.codePointAt(index) > 0xffff ? 2 : 1;
  }
  return index;
}

// The text as a fragment with flat range marked.
export function markedText(text, start, end) {
  const fragment = document.createDocumentFragment();
  fragment.append(shown(text.slice(0, start)));
  fragment.append(h("mark", { id: "evidence" }, shown(text.slice(start, end))));
  fragment.append(shown(text.slice(end)));
  return fragment;
}
