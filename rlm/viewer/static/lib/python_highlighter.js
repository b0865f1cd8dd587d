// Colours for Python: one pass over the text, each token in its own text node.

import { h } from "./dom.js";
import { shown } from "./untrusted_text.js";

const KEYWORDS = new Set(
  (
    "False None True and as assert async await break class continue def del elif else except finally for from global " +
    "if import in is lambda nonlocal not or pass raise return try while with yield match case"
  ).split(" "),
);
const REPL_FUNCTIONS = new Set(
  (
    "SUBMIT describe llm_query llm_batch llm_query_batched llm_map llm_errors rlm_query rlm_query_batched SHOW_VARS validate_json verify_quote budget " +
    "peek search chunk count_tokens"
  ).split(" "),
);
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
const TOKEN = new RegExp([COMMENT, STRING, NUMBER, DECORATOR, NAME, REST].map((pattern) => pattern.source).join("|"), "g");
const MAX_CHARS = 60000;

function kindOf(match, before) {
  if (match[1] !== undefined) return "comment";
  if (match[2] !== undefined) return "string";
  if (match[3] !== undefined) return "number";
  if (match[4] !== undefined) return "decorator";
  if (match[5] === undefined) return null;
  if (KEYWORDS.has(match[5])) return "keyword";
  if (before === "def" || before === "class") return "name";
  if (REPL_FUNCTIONS.has(match[5])) return "repl";
  return BUILTINS.has(match[5]) ? "builtin" : null;
}

// The lines of code, each a fragment.
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
  for (const match of code.slice(0, MAX_CHARS).matchAll(TOKEN)) {
    const kind = kindOf(match, before);
    if (match[5] !== undefined) before = match[5];
    else if (match[0].trim()) before = "";
    if (kind) {
      if (plain) add(plain, null);
      plain = "";
      add(match[0], kind);
    } else plain += match[0];
  }
  add(plain + code.slice(MAX_CHARS), null);
  return lines;
}
