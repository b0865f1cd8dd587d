// A page with one table: search, filters, sorting, keys, and updates while it is open.

import { debounce, h } from "../lib/dom.js";
import { count } from "../lib/format.js";
import { replaced, search } from "../lib/search_query.js";
import { WindowedList } from "../components/windowed_list.js";

const narrow = matchMedia("(max-width: 760px)");

function compare(a, b) {
  return typeof a === "string" ? -a.localeCompare(b) : a - b;
}

// A subclass stores the rows in `all` (`take`), opens one of them (`open`), and provides the text around the table:
// `chipList`, `totals`, `empty`.
export class TablePage {
  all = [];

  // A column has a label and, if rows can be sorted by it, a function that returns a number for a row. Rows are sorted by
  // `first` at the beginning; `tie` orders equal rows. `load` fetches rows, `row` draws one, `place` is the address.
  constructor({ source, go, query }, { columns, first, tie, load, row, key, place, rowClass, label, hint, chips }) {
    Object.assign(this, { go, columns, first, tie, place });
    this.load = () => load(source);
    this.sort = query.get("sort") ?? first;
    this.down = query.get("up") !== "1";
    this.input = h("input", {
      type: "search",
      id: "search",
      placeholder: hint,
      "aria-label": `Search ${label.toLowerCase()}`,
      autocomplete: "off",
      spellcheck: "false",
      on: { input: debounce(() => this.element.isConnected && this.show(true), 60) },
    });
    this.input.value = query.get("q") ?? "";
    this.chips = h("div", { class: "chips", role: "group", "aria-label": chips });
    this.total = h("p", { class: "total", "aria-live": "polite" });
    this.input.addEventListener("keydown", (event) => this.#typed(event));
    this.head = h("div", { class: `runs-head ${rowClass}` });
    const height = () => (narrow.matches ? 108 : 56);
    this.list = new WindowedList({ row: (item) => row(item, this), key, height, label });
    this.relayout = () => this.list.set(this.list.items);
    narrow.addEventListener("change", this.relayout);
  }

  async start() {
    await this.refresh();
    let ticks = 0;
    this.timer = setInterval(() => {
      ticks += 1;
      if (!document.hidden && this.due(ticks)) this.refresh().catch(() => {});
    }, 2000);
  }

  close() {
    clearInterval(this.timer);
    narrow.removeEventListener("change", this.relayout);
    this.list.close();
  }

  due() {
    return true;
  }

  async refresh() {
    const data = await this.load(); // the same object as before if nothing has changed
    if (data === this.before) return;
    this.before = data;
    this.take(data);
    this.show(false);
  }

  get among() {
    return this.all;
  }

  show(typed) {
    const { among, list } = this;
    const { matches: found, problems } = search(among, this.input.value);
    const matches = this.rowsOf(found);
    const by = this.columns[this.sort]?.[1] ?? this.columns[this.first][1];
    const sign = this.down ? -1 : 1;
    matches.sort((a, b) => (by ? sign * compare(by(a), by(b)) : 0) || this.tie(a, b));
    const selected = list.items[list.selected];
    list.set(matches);
    if (selected && list.selected >= 0) {
      const at = matches.findIndex((row) => list.key(row) === list.key(selected));
      list.select(Math.max(0, at), { scroll: false });
    }
    if (typed) list.element.scrollTop = 0;
    this.chips.replaceChildren(...this.chipList(among).filter(Boolean));
    this.#head();
    this.total.replaceChildren(...this.totals(found.length, among.length));
    list.element.classList.toggle("empty", !matches.length);
    list.element.dataset.empty = problems.length ? problems.join("\n") : this.empty(among.length);
    if (typed) {
      history.replaceState(null, "", this.permalink);
    }
  }

  // The rows of the table, from the rows that match the search.
  rowsOf(matches) {
    return matches;
  }

  // The address of the page as it is: with its search and its order.
  get permalink() {
    const parameters = this.parameters();
    return `${this.place}${parameters.size ? `?${parameters}` : ""}`;
  }

  // The state that is part of the address.
  parameters() {
    const parameters = new URLSearchParams();
    if (this.input.value) parameters.set("q", this.input.value);
    if (this.sort !== this.first) parameters.set("sort", this.sort);
    if (!this.down) parameters.set("up", "1");
    return parameters;
  }

  set(name, conditions) {
    this.input.value = replaced(this.input.value, name, conditions);
    this.show(true);
  }

  // A filter that is on or off. With `many`, the number of its rows, it is left out if there are none.
  chip(label, { on, click, many = null, kind = "plain", ...more }) {
    if (many === 0 && !on) return null;
    return h(
      "button",
      { type: "button", class: `chip ${kind}`, "aria-pressed": String(on), ...more, on: { click } },
      kind !== "plain" && h("span", { class: "dot" }),
      label,
      many !== null && h("span", { class: "many" }, count(many)),
    );
  }

  #head() {
    const cells = Object.entries(this.columns).map(([name, [label, by]]) => {
      const on = this.sort === name;
      const click = () => {
        this.down = on ? !this.down : true;
        this.sort = name;
        this.show(true);
      };
      return h(
        "span",
        { class: `cell ${name}`, "aria-sort": on && by ? (this.down ? "descending" : "ascending") : null },
        by
          ? h(
              "button",
              { type: "button", class: "sort", on: { click } },
              label,
              h("span", { class: "arrow" }, on ? (this.down ? "↓" : "↑") : ""),
            )
          : label,
      );
    });
    this.head.replaceChildren(...cells);
  }

  // Enter opens the first match, or the selected one; the arrow keys leave the search for the list.
  #typed(event) {
    if (event.key === "Enter") {
      this.show(true); // without the delay after the last letter
      const row = this.selected ?? this.list.items[0];
      if (row && this.input.value) this.open(row);
      else this.list.select(0);
    } else if (event.key === "ArrowDown") this.list.select(0);
    else return;
    this.input.blur();
    event.preventDefault();
    event.stopPropagation();
  }

  get selected() {
    return this.list.items[this.list.selected];
  }

  #next = () => this.list.select(this.list.selected + 1);
  #previous = () => this.list.select(Math.max(0, this.list.selected - 1));

  keys = {
    j: this.#next,
    k: this.#previous,
    ArrowDown: this.#next,
    ArrowUp: this.#previous,
    g: () => this.list.select(0),
    G: () => this.list.select(this.list.items.length - 1),
    Enter: () => this.selected && this.open(this.selected),
    "/": () => {
      this.input.focus();
      this.input.select();
    },
    Escape: () => {
      if (this.input.value) {
        this.input.value = "";
        this.show(true);
      } else this.list.select(-1);
    },
  };
}
