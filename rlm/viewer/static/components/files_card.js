// The files that the code of a run wrote: pictures as they are, all of them to save.

import { h } from "../lib/dom.js";
import { bytes } from "../lib/format.js";
import { line, shown } from "../lib/untrusted_text.js";

const PICTURES = ["image/png", "image/jpeg", "image/gif"];
const MAX_PICTURES = 12;

function entry(source, model, file, withPicture) {
  const name = String(file.name ?? "");
  const address = source.fileAddress && /^[0-9a-f]+$/.test(String(file.body)) ? source.fileAddress(model.id, file.body) : null;
  const facts = [String(file.media_type ?? ""), Number.isFinite(file.size) ? bytes(file.size) : null, file.problem].filter(Boolean);
  const title = h(address ? "a" : "span", address ? { download: name.split("/").pop() } : {}, line(name, 80));
  if (address) title.setAttribute("href", address); // an address of ours: `h` takes places in the page only
  return h(
    "li",
    { class: "written-file" },
    title,
    h("span", { class: "muted" }, shown(` ${facts.join(", ")}`)),
    withPicture && address ? h("img", { src: address, alt: name, loading: "lazy", class: "written-picture" }) : null,
  );
}

// The card; nothing for a run that wrote no files.
export function filesCard(source, model) {
  const files = model.written ?? [];
  const others = model.otherFiles ?? [];
  if (!files.length && !others.length) return [];
  let pictures = 0;
  return [
    h(
      "section",
      { class: "card files-card", "aria-label": "Files" },
      h("div", { class: "card-head" }, h("h2", {}, "Files")),
      others.length ? h("p", {}, "These inputs are not what they were in the recorded run: ", shown(others.map(String).join("; "))) : null,
      h(
        "ul",
        { class: "written-files" },
        files.map((file) => entry(source, model, file, PICTURES.includes(file.media_type) && (pictures += 1) <= MAX_PICTURES)),
      ),
    ),
  ];
}
