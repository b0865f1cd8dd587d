// The button at the end of a part of a list: it adds the next part in its place.

import { h } from "../lib/dom.js";

export function moreButton(label, add, style = {}) {
  const more = (event) => {
    event.target.remove();
    add();
  };
  return h("button", { type: "button", class: "button small more", style, on: { click: more } }, label);
}
