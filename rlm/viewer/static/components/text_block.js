// Blocks of text from a trace: code with line numbers, output, prompts. Long texts are loaded in pieces.

import { copyButton, wholeText } from "./copy_button.js";
import { h } from "../lib/dom.js";
import { count } from "../lib/format.js";
import { highlighted } from "../lib/python_highlighter.js";
import { isReference, sizeOf, textOf } from "../lib/data_source.js";
import { indexOf, markedText, shown } from "../lib/untrusted_text.js";

const FIRST = 12000;
const MORE = 100000;
const AROUND = 2000;

// Code with line numbers; the line of an error is marked, and the one that is `wanted`.
export async function codeBlock(source, id, value, errorLine, wanted = null) {
  const { text, more } = await textOf(source, id, value, 200000);
  const lines = highlighted(text);
  const block = h(
    "pre",
    { class: "code", tabindex: "0", "aria-label": "Code" },
    h(
      "code",
      {},
      lines.map((content, index) =>
        h(
          "span",
          {
            class: `code-line ${index + 1 === errorLine ? "error-line" : ""} ${index + 1 === wanted ? "wanted-line" : ""}`,
            id: index + 1 === wanted ? "evidence" : null,
          },
          content,
          "\n",
        ),
      ),
    ),
  );
  const rest = more && h("p", { class: "muted" }, "The rest of the code is not shown.");
  return h("div", { class: "text-box" }, block, copyButton(() => wholeText(source, id, value)), rest);
}

// The first part of a text; `span` is a range [start, end] of characters to mark and scroll to.
export async function textBlock(source, id, value, { kind = "out", span = null, label = "Text", first = FIRST } = {}) {
  const size = sizeOf(value);
  const whole = span ? Math.max(0, span[0] - AROUND) : 0;
  const deep = span && span[1] > first;
  const start = deep ? whole : 0;
  const end = deep ? span[1] + AROUND : first;
  const block = h("pre", { class: `text ${kind}`, tabindex: "0", "aria-label": label });
  const box = h("div", { class: "text-box" }, block, copyButton(() => wholeText(source, id, value)));
  let part;
  if (isReference(value)) part = await source.blob(id, value.$body, start, end);
  else {
    const text =
      typeof value === "string" ? value : value === null || value === undefined ? "" : JSON.stringify(value, null, 1);
    part = { text: text.slice(indexOf(text, start), indexOf(text, end)), more: [...text].length > end };
  }
  const { text } = part;
  if (span) block.append(markedText(text, indexOf(text, span[0] - start), indexOf(text, span[1] - start)));
  else block.append(shown(text));
  if (start > 0) box.prepend(h("p", { class: "muted cut" }, `${count(start)} characters before this`));
  if (part.more) box.append(moreButton(source, id, value, block, end, size));
  return box;
}

function moreButton(source, id, value, block, from, size) {
  let at = from;
  const say = () => `Show ${count(Math.min(MORE, size - at))} more of ${count(size)} characters`;
  const button = h("button", { type: "button", class: "button small more" }, say());
  button.addEventListener("click", async () => {
    const next = isReference(value)
      ? await source.blob(id, value.$body, at, at + MORE)
      : { text: [...String(value)].slice(at, at + MORE).join(""), more: [...String(value)].length > at + MORE };
    block.append(shown(next.text));
    at += MORE;
    if (next.more) button.replaceChildren(say());
    else button.remove();
  });
  return button;
}

// A section that can be opened; its content is loaded then.
export function fold(label, make, { open = false, className = "" } = {}) {
  const body = h("div", { class: "fold-body" });
  const details = h("details", { class: `fold ${className}` }, h("summary", {}, label), body);
  let loaded = false;
  const fill = async () => {
    if (loaded || !details.open) return;
    loaded = true;
    try {
      body.replaceChildren(...[await make()].flat());
    } catch (error) {
      body.replaceChildren(h("p", { class: "problem" }, shown(String(error.message ?? error))));
    }
  };
  details.addEventListener("toggle", fill);
  details.open = open;
  return details;
}
