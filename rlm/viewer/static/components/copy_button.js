// A button that copies a text, and anchors: links to one part of the page.

import { h } from "../lib/dom.js";
import { isReference } from "../lib/data_source.js";

const MOST = 4000000;
const SHOWN_MS = 1400;

async function write(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = h("textarea", { class: "visually-hidden" }); // the clipboard is missing where an address is not local
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  return undefined;
}

// `get` returns the text, or a promise of it. The words on the button are no text of the page: they are not copied with it.
export function copyButton(get, { label = "Copy", title = "Copy the text" } = {}) {
  const button = h("button", { type: "button", class: "button small copy", title, "data-label": label, "aria-label": title });
  const show = (words) => button.setAttribute("data-label", words);
  button.addEventListener("click", async (event) => {
    event.preventDefault();
    event.stopPropagation();
    let outcome = "Copied";
    try {
      await write(await get());
    } catch {
      outcome = "Not copied";
    }
    show(outcome);
    setTimeout(() => show(label), SHOWN_MS);
  });
  return button;
}

// The whole text of a recorded value.
export async function wholeText(source, id, value) {
  if (isReference(value)) return (await source.blob(id, value.$body, 0, MOST)).text;
  return typeof value === "string" ? value : JSON.stringify(value ?? null, null, 1);
}

// The address of this page.
export function linkButton() {
  return copyButton(() => location.href, { label: "Copy link", title: "Copy the address of what is shown" });
}

// A link to a part of a step: its address can be copied.
export function anchor(href, name) {
  return h("a", { class: "anchor", href, "aria-label": `Link to ${name}`, title: `Link to ${name}` }, "#");
}
