// The note and the labels of a run, and the form that changes them. Only there does the page write.

import { h } from "../lib/dom.js";
import { ago } from "../lib/format.js";
import { line, shown } from "../lib/untrusted_text.js";

const COMMON = ["right", "wrong"];

export class NoteCard {
  // `changed` is called when there is a note, or there is none any more.
  constructor({ source, id, note, writable, changed }) {
    Object.assign(this, { source, id, writable, changed });
    this.note = note ?? { text: "", labels: [] };
    this.element = h("section", { class: "note-card", "aria-label": "Note" });
    this.show();
  }

  show() {
    const { note, writable } = this;
    const { empty } = this;
    this.element.hidden = empty;
    this.element.classList.toggle("set", !empty);
    const edit = writable && h("button", { type: "button", class: "button small", on: { click: () => this.edit() } }, "Edit note");
    this.element.replaceChildren(
      ...note.labels.map((label) => h("span", { class: `label ${COMMON.includes(label) ? label : ""}` }, line(label, 40))),
      ...(note.text ? [h("p", { class: "note-text" }, shown(note.text))] : []),
      ...(empty ? [] : [h("span", { class: "muted" }, ago(note.changed))]),
      ...(edit ? [edit] : []),
    );
    this.changed();
  }

  get empty() {
    return !this.note.text && !this.note.labels.length;
  }

  edit() {
    if (!this.writable || this.element.querySelector("form")) return;
    const { note } = this;
    const others = note.labels.filter((label) => !COMMON.includes(label));
    const boxes = COMMON.map((name) => h("input", { type: "checkbox", value: name, checked: note.labels.includes(name) }));
    for (const box of boxes) box.addEventListener("change", () => box.checked && boxes.forEach((other) => (other.checked = other === box)));
    const labels = h("input", { type: "text", value: others.join(", "), "aria-label": "Other labels", placeholder: "other labels, with commas" });
    const text = h("textarea", { rows: 3, "aria-label": "Note", maxlength: 10000 });
    text.value = note.text;
    const problem = h("p", { class: "problem", hidden: true, role: "alert" });
    const form = h(
      "form",
      {},
      h("div", { class: "note-labels" }, boxes.map((box) => h("label", {}, box, ` ${box.value}`)), labels),
      text,
      problem,
      h(
        "div",
        { class: "note-buttons" },
        h("button", { type: "submit", class: "button main small" }, "Save"),
        h("button", { type: "button", class: "button small", on: { click: () => this.show() } }, "Cancel"),
        h("span", { class: "muted" }, "Ctrl+Enter saves"),
      ),
    );
    const save = async (event) => {
      event.preventDefault();
      const chosen = boxes.filter((box) => box.checked).map((box) => box.value);
      const typed = labels.value.split(",").map((label) => label.trim());
      try {
        this.note = await this.source.writeNote(this.id, text.value, [...chosen, ...typed.filter(Boolean)]);
        this.show();
      } catch (error) {
        problem.hidden = false;
        problem.replaceChildren(shown(String(error.message ?? error)));
      }
    };
    form.addEventListener("submit", save);
    form.addEventListener("keydown", (event) => {
      event.stopPropagation(); // the keys of the page are letters
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save(event);
      if (event.key === "Escape") this.show();
    });
    this.element.hidden = false;
    this.element.replaceChildren(form);
    text.focus();
  }
}
