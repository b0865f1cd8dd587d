// A list of any length in which only the visible rows exist. All rows have the same height.

import { h } from "../lib/dom.js";

const AROUND = 8;

export class WindowedList {
  #items = [];
  #rows = new Map();
  #selected = -1;

  // `row(item, index)` makes a row; `key(item)` identifies an item.
  constructor({ row, key, height, label }) {
    this.row = row;
    this.key = key;
    this.height = height;
    this.space = h("div", { class: "window-space" });
    this.element = h("div", { class: "window", role: "list", "aria-label": label, tabindex: "-1" }, this.space);
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(this.element);
  }

  get items() {
    return this.#items;
  }

  get selected() {
    return this.#selected;
  }

  set(items) {
    this.#items = items;
    this.space.style.setProperty("height", `${items.length * this.height()}px`);
    for (const row of this.#rows.values()) row.element.remove();
    this.#rows.clear();
    this.draw();
  }

  draw() {
    const height = this.height();
    const top = this.element.scrollTop;
    const seen = this.element.clientHeight || 600;
    const scrollbar = this.element.offsetWidth - this.element.clientWidth;
    this.element.parentElement?.style.setProperty("--scrollbar", `${scrollbar}px`);
    const from = Math.max(0, Math.floor(top / height) - AROUND);
    const to = Math.min(this.#items.length, Math.ceil((top + seen) / height) + AROUND);
    for (const [index, row] of this.#rows) {
      if (index < from || index >= to) {
        row.element.remove();
        this.#rows.delete(index);
      }
    }
    const fresh = document.createDocumentFragment();
    for (let index = from; index < to; index += 1) {
      if (this.#rows.has(index)) continue;
      const element = this.row(this.#items[index], index);
      element.classList.add("window-row");
      element.setAttribute("role", "listitem");
      element.setAttribute("aria-posinset", String(index + 1));
      element.setAttribute("aria-setsize", String(this.#items.length));
      element.classList.toggle("selected", index === this.#selected);
      element.style.setProperty("transform", `translateY(${index * height}px)`);
      this.#rows.set(index, { element });
      fresh.append(element);
    }
    this.space.append(fresh);
  }

  select(index, { scroll = true } = {}) {
    this.#selected = this.#items.length ? Math.max(0, Math.min(index, this.#items.length - 1)) : -1;
    for (const [index, row] of this.#rows) row.element.classList.toggle("selected", index === this.#selected);
    if (!scroll || this.#selected < 0) return;
    const height = this.height();
    const top = this.#selected * height;
    const seen = this.element.clientHeight;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + height > this.element.scrollTop + seen) this.element.scrollTop = top + height - seen;
    this.draw();
  }

  close() {
    this.watch.disconnect();
  }
}
