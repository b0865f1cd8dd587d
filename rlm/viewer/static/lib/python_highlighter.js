// Colours for Python: one pass over the text, every token in a text node of its own.

import { h } from "./dom.js";
import { shown } from "./untrusted_text.js";

const KEYWORDS = new Set(
  (
    "False None True and as assert async await break class continue def del elif else except finally for from global " +
    "if import in is lambda nonlocal not or pass raise return try while with yield match case"
  ).split(" "),
);
const OURS = new Set("SUBMIT llm_query llm_batch llm_errors rlm_query validate_json budget".split(" "));
const BUILTINS = new Set(
  (
    "abs all any bool bytes dict dir divmod enumerate filter float format frozenset getattr hasattr hash int isinstance " +
    "iter len list map max min next object ord print range repr reversed round set slice sorted str sum super tuple " +
    "type zip Exception ValueError KeyError TypeError IndexError"
  ).split(" "),
);
const COMMENT = /(#[^\n]*)/;
const STRING = /([rRbBuUfF]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\[^]|[^"\\\n])*"?|'(?:\\[^]|[^'\\\n])*'?))/;
const NUMBER = /(0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.[\d_]*)?(?:[eE][+-]?\d+)?j?|\.\d[\d_]*(?:[eE][+-]?\d+)?)/;
const DECORATOR = /(@[\w.]+)/;
const NAME = /([A-Za-z_\u00aa-\uffff][\w\u00aa-\uffff]*)/;
const REST = /([^\S\n]+|\n|[^])/;
const TOKEN = new RegExp([COMMENT, STRING, NUMBER, DECORATOR, NAME, REST].map((one) => one.source).join("|"), "g");
const MOST = 60000;

function kindOf(found, before) {
  if (found[1] !== undefined) return "comment";
  if (found[2] !== undefined) return "string";
  if (found[3] !== undefined) return "number";
  if (found[4] !== undefined) return "decorator";
  if (found[5] === undefined) return null;
  if (KEYWORDS.has(found[5])) return "keyword";
  if (before === "def" || before === "class") return "name";
  if (OURS.has(found[5])) return "ours";
  return BUILTINS.has(found[5]) ? "builtin" : null;
}

// The lines of some code, each a fragment.
export function highlighted(code) {
  const lines = [document.createDocumentFragment()];
  const add = (text, kind) => {
    text.split("\n").forEach((part, index) => {
      if (index) lines.push(document.createDocumentFragment());
      if (part) lines.at(-1).append(kind ? h("span", { class: `py-${kind}` }, shown(part)) : shown(part));
    });
  };
  let before = "";
  let plain = "";
  for (const found of code.slice(0, MOST).matchAll(TOKEN)) {
    const kind = kindOf(found, before);
    if (found[5] !== undefined) before = found[5];
    else if (found[0].trim()) before = "";
    if (kind) {
      if (plain) add(plain, null);
      plain = "";
      add(found[0], kind);
    } else plain += found[0];
  }
  add(plain + code.slice(MOST), null);
  return lines;
}
