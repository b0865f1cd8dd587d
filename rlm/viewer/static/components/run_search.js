// Search in the texts of a run: the box above the steps, and the places where the text was found.

import { debounce, h } from "../lib/dom.js";
import { plural } from "../lib/format.js";
import { shown } from "../lib/untrusted_text.js";

const DELAY_MS = 250;

export class RunSearch {
  // `list` is the element that the places replace while there are some; `titleOf` names a step.
  constructor({ source, id, list, titleOf, go }) {
    Object.assign(this, { source, id, list, titleOf, go });
    this.input = h("input", {
      type: "search",
      class: "run-search",
      placeholder: "Search this run",
      "aria-label": "Search this run",
      autocomplete: "off",
      spellcheck: "false",
      on: { input: debounce(() => this.#find(), DELAY_MS) },
    });
    this.places = h("div", { class: "places", role: "list", "aria-label": "Places", hidden: true });
    this.input.addEventListener("keydown", (event) => this.#typed(event));
  }

  focus() {
    this.input.focus();
    this.input.select();
  }

  set(text) {
    if (text === this.input.value.trim()) return;
    this.input.value = text;
    this.#find();
  }

  #typed(event) {
    if (event.key === "Escape") {
      this.input.value = "";
      this.#find();
    } else if (event.key === "Enter") {
      this.#find().then(() => this.first && this.go(this.first));
    } else return;
    this.input.blur();
    event.preventDefault();
    event.stopPropagation();
  }

  async #find() {
    const text = this.input.value.trim();
    if (text === this.searched) return;
    this.searched = text;
    this.first = null;
    this.places.hidden = !text;
    this.list.hidden = Boolean(text);
    if (!text) return;
    let answer;
    try {
      answer = await this.source.search(this.id, text);
    } catch (error) {
      this.places.replaceChildren(h("p", { class: "problem" }, shown(String(error.message ?? error))));
      return;
    }
    if (text !== this.searched) return;
    const rows = answer.places.map((place) => this.#row(place, text));
    this.first = answer.places.length ? this.#address(answer.places[0], text) : null;
    const many = `${answer.more ? "The first " : ""}${plural(rows.length, "place")}`;
    this.places.replaceChildren(h("p", { class: "muted", "aria-live": "polite" }, rows.length ? many : "It is nowhere in this run."), ...rows);
  }

  #address({ step, part, span }, text) {
    const parameters = new URLSearchParams({ part, find: text });
    if (part === "output") parameters.set("mark", span.join("-"));
    return `#/run/${this.id}/${step}?${parameters}`;
  }

  #row(place, text) {
    const [before, found, after] = place.around;
    return h(
      "a",
      { class: "place", role: "listitem", href: this.#address(place, text) },
      h("span", { class: "place-step" }, shown(this.titleOf(place.step)), h("span", { class: "muted" }, ` ${place.part}`)),
      h("span", { class: "place-text" }, shown(before.slice(-30)), h("mark", {}, shown(found)), shown(after)),
      place.more > 0 && h("span", { class: "muted" }, `and ${plural(place.more, "more", "more")}`),
    );
  }
}
