// Calls of tools that wait for a person: what a cell wants to call, and the buttons that answer, once for all of them.

import { h } from "../lib/dom.js";
import { line, shown } from "../lib/untrusted_text.js";

const FIRST = 20;
const ANSWERS = [
  ["Approve these calls", { approved: true, scope: "calls" }],
  ["All in this cell", { approved: true, scope: "cell" }],
  ["All in this run", { approved: true, scope: "run" }],
  ["Reject", { approved: false }],
];

export class ApprovalCard {
  constructor({ source, id, writable }) {
    Object.assign(this, { source, id, writable });
    this.element = h("section", { class: "approvals", "aria-label": "Approvals", hidden: true });
    this.known = "";
  }

  // Show what waits, if the events of the run say that something does.
  async refresh(open) {
    const known = [...open].join();
    if (known === this.known) return;
    this.known = known;
    const waiting = open.size && !this.source.embedded ? (await this.source.approvals(this.id)).approvals : [];
    this.element.hidden = !waiting.length;
    this.element.replaceChildren(...waiting.map((one) => this.#card(one)));
  }

  #card({ id, title, calls }) {
    const problem = h("p", { class: "problem", hidden: true, role: "alert" });
    const list = h("ul", { class: "approval-calls" });
    const fill = (most) => list.replaceChildren(...calls.slice(0, most).map((call) => h("li", {}, h("code", {}, shown(call)))));
    fill(FIRST);
    const more =
      calls.length > FIRST &&
      h("button", { type: "button", class: "button small", on: { click: () => (fill(calls.length), more.remove()) } }, `Show all ${calls.length}`);
    const card = h("div", { class: "approval" });
    const answer = async (given) => {
      try {
        await this.source.answerApproval(this.id, id, given);
        card.remove();
        this.element.hidden = !this.element.childElementCount;
      } catch (error) {
        problem.hidden = false;
        problem.replaceChildren(shown(String(error.message ?? error)));
      }
    };
    const buttons = ANSWERS.map(([text, given], index) =>
      h("button", { type: "button", class: `button small${index ? "" : " main"}`, on: { click: () => answer(given) } }, text),
    );
    const how = h("p", { class: "muted" }, `To answer: rlm escalations approve ${id.slice(0, 8)}, or open the address that rlm view printed.`);
    card.append(h("strong", {}, line(title, 200)), list, ...(more ? [more] : []), problem);
    card.append(this.writable ? h("div", { class: "note-buttons" }, buttons) : how);
    return card;
  }
}
