// The tree of model calls, host calls and child runs, with own and total cost. Branches are loaded when opened.

import { h } from "../lib/dom.js";
import { count, dollars, seconds, short } from "../lib/format.js";
import { cached, used, usedByCall, usedByIteration, usedByRun } from "../lib/run_model.js";
import { line, shown } from "../lib/untrusted_text.js";
import { moreButton } from "./more_button.js";

const PAGE = 100;

function cost(spent) {
  if (spent.cost !== null && spent.cost !== undefined) return dollars(spent.cost);
  return spent.tokens ? `${short(spent.tokens)} tok` : "–";
}

export class Tree {
  // `load(id)` returns the model of a child run.
  constructor({ model, load }) {
    this.load = load;
    this.body = h("div", { class: "tree", role: "tree", "aria-label": "Calls" });
    this.element = h(
      "section",
      { class: "card tree-card" },
      h(
        "div",
        { class: "tree-row tree-head" },
        h("span", {}, "What"),
        h("span", { class: "num" }, "Own cost"),
        h("span", { class: "num" }, "Total"),
        h("span", { class: "num tokens" }, "Tokens"),
        h("span", { class: "num" }, "Time"),
      ),
      this.body,
    );
    this.set(model);
  }

  set(model) {
    this.model = model;
    this.body.replaceChildren();
    const root = this.#runNode(model.run, async () => this.#insideRun(model));
    this.body.append(...this.#element(root, 0));
    this.body.querySelector("button.twist")?.click();
  }

  #runNode(run, children) {
    return {
      kind: "run",
      label: (run.parent && run.task) || run.name || run.id,
      detail: `${run.id} · ${run.ending}`,
      href: `#/run/${run.id}`,
      ...usedByRun(run),
      time: run.duration,
      bad: run.ending === "failed",
      children,
    };
  }

  #insideRun(model) {
    const nodes = model.planAsks.map((ask) => this.#askNode(ask, `#/run/${model.id}`));
    for (const child of model.byCall.get(null) ?? [])
      nodes.push(this.#runNode(child, async () => this.#insideRun(await this.load(child.id))));
    const iterations = model.iterations.map((iteration) => ({
      kind: "iteration",
      label: `Iteration ${iteration.number}`,
      detail: iteration.title,
      href: `#/run/${model.id}/${iteration.number}`,
      ...usedByIteration(model, iteration),
      time: iteration.ended - iteration.started,
      bad: iteration.cell?.ok === false,
      children: iteration.asks.length || iteration.calls.length ? async () => this.#insideIteration(model, iteration) : null,
    }));
    nodes.push(...iterations);
    const asks = model.extractionAsks;
    if (asks.length) {
      nodes.push({
        kind: "extraction",
        label: "Extraction",
        detail: "",
        own: used([]),
        total: used(asks),
        time: asks.reduce((sum, ask) => sum + (ask.seconds ?? 0), 0),
        children: async () => asks.map((ask, index) => this.#askNode(ask, `#/run/${model.id}/attempt-${index + 1}`)),
      });
    }
    return nodes;
  }

  #insideIteration(model, iteration) {
    const href = `#/run/${model.id}/${iteration.number}`;
    return [
      ...iteration.asks.map((ask) => this.#askNode(ask, href)),
      ...iteration.calls.map((call) => {
        const below = model.byCall.get(call.id) ?? [];
        return {
          kind: "call",
          label: `${call.name}()`,
          detail: call.error ? "error" : "",
          href,
          ...usedByCall(model, call),
          time: call.seconds,
          bad: Boolean(call.error),
          children:
            call.asks.length || below.length
              ? async () => [
                  ...call.asks.map((ask) => this.#askNode(ask, href)),
                  ...below.map((child) => this.#runNode(child, async () => this.#insideRun(await this.load(child.id)))),
                ]
              : null,
        };
      }),
    ];
  }

  #askNode(ask, href) {
    const spent = used([ask]);
    return {
      kind: ask.role === "main" ? "model" : ask.role,
      label: String(ask.model || ask.role)
        .split("/")
        .pop(),
      detail: ask.error ?? (ask.past ? "from the record" : cached([ask]) || ask.role),
      href,
      own: spent,
      total: spent,
      time: ask.seconds,
      bad: Boolean(ask.error),
      children: null,
    };
  }

  // A row, and the container of the rows below it.
  #element(node, depth) {
    const below = h("div", { role: "group", hidden: true });
    const twist = node.children
      ? h("button", { type: "button", class: "twist", "aria-label": `Open ${node.label}` }, "▸")
      : h("span", { class: "twist" });
    const row = h(
      "div",
      {
        class: "tree-row",
        role: "treeitem",
        "aria-level": depth + 1,
        "aria-expanded": node.children ? "false" : null,
        "data-kind": node.kind,
      },
      h(
        "span",
        { class: "tree-name", style: { "--depth": String(Math.min(depth, 10)) } },
        twist,
        h("i", { class: `swatch ${node.kind}` }),
        h(
          node.href ? "a" : "span",
          node.href ? { href: node.href, class: node.bad ? "bad" : "" } : {},
          line(node.label, 60),
        ),
        h("span", { class: "muted tree-detail" }, line(node.detail, 80)),
      ),
      h("span", { class: "num" }, cost(node.own)),
      h("span", { class: "num" }, cost(node.total)),
      h("span", { class: "num tokens" }, count(node.total.tokens)),
      h("span", { class: "num" }, seconds(node.time)),
    );
    let loaded = false;
    if (node.children) {
      twist.addEventListener("click", async () => {
        const open = below.hidden;
        below.hidden = !open;
        row.setAttribute("aria-expanded", String(open));
        if (!open || loaded) return;
        loaded = true;
        try {
          this.#page(below, await node.children(), 0, depth + 1);
        } catch (error) {
          below.append(h("p", { class: "problem" }, shown(String(error.message ?? error))));
        }
      });
    }
    return [row, below];
  }

  #page(below, nodes, from, depth) {
    for (const node of nodes.slice(from, from + PAGE)) below.append(...this.#element(node, depth));
    const left = nodes.length - from - PAGE;
    if (left > 0) {
      below.append(
        moreButton(
          `Show ${count(Math.min(PAGE, left))} more of ${count(nodes.length)}`,
          () => this.#page(below, nodes, from + PAGE, depth),
          { "margin-left": `${depth * 18 + 24}px` },
        ),
      );
    }
  }
}
