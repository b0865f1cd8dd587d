// The host calls of one cell.

import { anchor } from "./copy_button.js";
import { fold, textBlock } from "./text_block.js";
import { h } from "../lib/dom.js";
import { count, dollars, plural, seconds, short } from "../lib/format.js";
import { cached, usedByCall } from "../lib/run_model.js";
import { moreButton } from "./more_button.js";
import { section } from "./sections.js";
import { line, shown } from "../lib/untrusted_text.js";

const PAGE = 50;

// The host calls of one cell, fifty at a time: a cell can make thousands. The call with the number `wanted` is open.
export function callList(source, model, calls, wanted = null) {
  const first = Math.max(PAGE, calls.findIndex((call) => call.id === wanted) + 1);
  const list = h("div", { class: "calls" });
  const add = async (from) => {
    const page = calls.slice(from, from ? from + PAGE : first);
    const events = await source.whole(
      model.id,
      page.flatMap((call) => [call.sequence, call.end]),
    );
    const rows = page.map((call) =>
      callRow(source, model, call, events.get(call.sequence) ?? {}, events.get(call.end) ?? {}, call.id === wanted),
    );
    const left = calls.length - from - page.length;
    const more =
      left > 0 &&
      moreButton(`Show ${count(Math.min(PAGE, left))} more of ${count(calls.length)} calls`, () => add(from + page.length));
    list.append(...rows, ...(more ? [more] : []));
    list.querySelector(".call.wanted")?.scrollIntoView({ block: "center" });
  };
  add(0).catch((error) => list.append(h("p", { class: "problem" }, shown(String(error.message)))));
  return list;
}

function callRow(source, model, call, started, ended, wanted) {
  const spent = usedByCall(model, call).total;
  const children = model.byCall.get(call.id) ?? [];
  const label = [
    h("span", { class: "call-name" }, shown(call.name)),
    h("span", { class: "call-preview" }, line(started.preview ?? "", 140)),
    h(
      "span",
      { class: "call-figures" },
      call.error ? h("span", { class: "bad" }, "error ") : "",
      [
        call.seconds === undefined ? "not ended" : seconds(call.seconds),
        spent.tokens ? `${short(spent.tokens)} tok` : "",
        spent.cost ? dollars(spent.cost) : "",
        cached(call.asks),
      ]
        .filter(Boolean)
        .join(" · "),
    ),
  ];
  return fold(
    label,
    async () =>
      [
        ...children.map((child) =>
          h(
            "p",
            {},
            h("a", { class: "button small", href: `#/run/${child.id}` }, "Open child run ", h("code", {}, child.id)),
            ` ${child.ending}`,
          ),
        ),
        anchor(`#/run/${model.id}/${call.iteration}?call=${call.id}`, "this call"),
        section("Arguments", await textBlock(source, model.id, started.arguments, { kind: "json" })),
        ended.error
          ? section("Error", await textBlock(source, model.id, ended.error, { kind: "out bad" }))
          : ended.answer !== undefined &&
            section("Answer", await textBlock(source, model.id, ended.answer, { kind: "json" })),
        call.asks.length
          ? section(
              "Model calls",
              h("p", { class: "muted" }, `${plural(call.asks.length, "request")}, ${call.asks[0].model}`),
            )
          : null,
      ].filter(Boolean),
    { className: wanted ? "call wanted" : "call", open: wanted },
  );
}
