// Text nobody vouches for, on screen: what cannot be seen, or would turn other text around, is shown as a small mark.

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

function mark(found) {
  const points = [...found];
  const names = points.slice(0, MOST_MARKS).map((one) => {
    const code = one.codePointAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    if (code === 0x7f) return "\u2421";
    if (code < 0x7f) return one;
    return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  });
  const more = points.length > MOST_MARKS ? `\u2026\u00d7${points.length}` : "";
  return h("span", { class: "odd", title: "characters that would not be seen" }, names.join("") + more);
}

// A fragment with the text in it.
export function shown(text) {
  const made = document.createDocumentFragment();
  let from = 0;
  ODD.lastIndex = 0;
  for (const found of String(text).matchAll(ODD)) {
    if (found.index > from) made.append(text.slice(from, found.index));
    made.append(mark(found[0]));
    from = found.index + found[0].length;
  }
  if (from < text.length) made.append(text.slice(from));
  return made;
}

// One line, for lists: cut, and with nothing in it that breaks the line.
export function line(text, most = 160) {
  const one = String(text ?? "")
    .replace(/\s+/g, " ")
    .trim();
  return shown(one.length > most ? `${one.slice(0, most)}\u2026` : one);
}

// Where the n-th character is in a string: Python counts code points, JavaScript halves of pairs.
export function indexOf(text, characters) {
  if (!/[\ud800-\udbff]/.test(text)) return Math.min(characters, text.length);
  let index = 0;
  for (let left = characters; left > 0 && index < text.length; left -= 1) {
    index += text.codePointAt(index) > 0xffff ? 2 : 1;
  }
  return index;
}

// A fragment with one span of the text marked.
export function markedText(text, start, end) {
  const made = document.createDocumentFragment();
  made.append(shown(text.slice(0, start)));
  made.append(h("mark", { id: "evidence" }, shown(text.slice(start, end))));
  made.append(shown(text.slice(end)));
  return made;
}
