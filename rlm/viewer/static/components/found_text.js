// Marks for a text that was searched, wherever it is in an element. The elements themselves are not changed.

const MOST = 500;

export class FoundText {
  #text = "";

  constructor(element) {
    this.element = element;
    this.watch = new MutationObserver(() => this.#mark());
    this.watch.observe(element, { childList: true, subtree: true });
  }

  set(text) {
    this.#text = text.toLowerCase();
    this.#mark();
  }

  close() {
    this.set("");
    this.watch.disconnect();
  }

  #mark() {
    if (!globalThis.CSS?.highlights) return;
    CSS.highlights.delete("found");
    const text = this.#text;
    if (!text) return;
    const ranges = [];
    const walker = document.createTreeWalker(this.element, NodeFilter.SHOW_TEXT);
    while (walker.nextNode() && ranges.length < MOST) {
      const here = walker.currentNode.data.toLowerCase();
      if (here.length !== walker.currentNode.data.length) continue; // a few letters change their length
      for (let at = here.indexOf(text); at >= 0 && ranges.length < MOST; at = here.indexOf(text, at + text.length)) {
        const range = new Range();
        range.setStart(walker.currentNode, at);
        range.setEnd(walker.currentNode, at + text.length);
        ranges.push(range);
      }
    }
    if (ranges.length) CSS.highlights.set("found", new Highlight(...ranges));
  }
}
