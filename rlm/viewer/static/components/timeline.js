// The timeline: a flame chart of the run, its iterations, model calls, host calls and child runs.

import { h } from "../lib/dom.js";
import { dollars, plural, seconds, short } from "../lib/format.js";
import { MAX_ROWS, arranged, spansOf } from "../lib/timeline_spans.js";
import { line } from "../lib/untrusted_text.js";

const ROW = 20;
const AXIS = 22;
const SMALLEST = 1.5;

export class Timeline {
  constructor({ open }) {
    this.open = open;
    this.canvas = h("canvas", {
      class: "flame-canvas",
      tabindex: "0",
      role: "img",
      "aria-label": "Timeline of the run; the Calls tab has the same as a tree",
    });
    this.tip = h("div", { class: "tip", hidden: true });
    this.hint = h("span", { class: "muted hint" }, "drag to move, Ctrl and wheel to zoom");
    this.buttons = h(
      "div",
      { class: "buttons" },
      this.hint,
      h(
        "button",
        { type: "button", class: "button small", "aria-label": "Zoom in", on: { click: () => this.zoom(0.5) } },
        "+",
      ),
      h(
        "button",
        { type: "button", class: "button small", "aria-label": "Zoom out", on: { click: () => this.zoom(2) } },
        "−",
      ),
      h("button", { type: "button", class: "button small", on: { click: () => this.reset() } }, "Whole run"),
    );
    this.box = h("div", { class: "flame-box" }, this.canvas, this.tip);
    this.element = h(
      "section",
      { class: "card flame", "aria-label": "Timeline" },
      h("div", { class: "card-head" }, h("h2", {}, "Timeline"), this.#legend(), this.buttons),
      this.box,
    );
    this.whole = true;
    this.spans = [];
    this.rows = 1;
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(this.box);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.repaint = () => this.draw();
    this.scheme.addEventListener("change", this.repaint);
    this.#listen();
  }

  close() {
    this.watch.disconnect();
    this.scheme.removeEventListener("change", this.repaint);
  }

  #legend() {
    const names = [
      ["model", "model"],
      ["kernel", "kernel start"],
      ["cell", "cell"],
      ["call", "host call"],
      ["sub", "sub-model"],
      ["run", "child run"],
      ["extraction", "extraction"],
      ["wait", "wait for a provider"],
    ];
    return h(
      "div",
      { class: "legend" },
      names.map(([kind, label]) => h("span", {}, h("i", { class: `swatch ${kind}` }), label)),
    );
  }

  set(model, inner) {
    this.model = model;
    const now = model.live ? Math.max(model.end, Date.now() / 1000) : model.end;
    const { spans, rows } = arranged(spansOf(model, inner, now));
    this.spans = spans;
    this.rows = rows;
    const first = model.begin;
    const last = Math.max(model.end, ...spans.slice(0, 1).map((span) => span.ended));
    this.limits = [first, Math.max(last, first + 1e-3)];
    if (this.whole || !this.view) this.view = [...this.limits];
    this.draw();
  }

  mark(iteration) {
    this.marked = iteration;
    this.draw();
  }

  zoom(factor, at = (this.view[0] + this.view[1]) / 2) {
    const [from, to] = this.view;
    const all = this.limits[1] - this.limits[0];
    const width = Math.min(all, Math.max(all / 1e6, (to - from) * factor));
    const part = (at - from) / (to - from);
    this.#look(at - part * width, width);
  }

  reset() {
    this.whole = true;
    this.view = [...this.limits];
    this.draw();
  }

  #look(from, width) {
    const [first, last] = this.limits;
    const start = Math.max(first, Math.min(from, last - width));
    this.view = [start, start + width];
    this.whole = width >= (last - first) * 0.9999;
    this.draw();
  }

  #listen() {
    let drag = null;
    const timeAt = (event) => this.view[0] + (event.offsetX / this.canvas.clientWidth) * (this.view[1] - this.view[0]);
    this.canvas.addEventListener("pointerdown", (event) => {
      drag = { x: event.clientX, from: this.view[0], moved: false };
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (drag && Math.abs(event.clientX - drag.x) > 3 && event.buttons) {
        drag.moved = true;
        const width = this.view[1] - this.view[0];
        this.#look(drag.from - ((event.clientX - drag.x) / this.canvas.clientWidth) * width, width);
      }
      this.#point(event);
    });
    this.canvas.addEventListener("pointerleave", () => {
      drag = null;
      this.tip.hidden = true;
    });
    this.canvas.addEventListener("click", (event) => {
      const span = !drag?.moved && this.#at(event.offsetX, event.offsetY);
      drag = null;
      if (span) this.open(span);
    });
    this.canvas.addEventListener("dblclick", () => this.reset());
    this.canvas.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.zoom(Math.exp(event.deltaY / 300), timeAt(event));
      },
      { passive: false },
    );
    this.canvas.addEventListener("keydown", (event) => {
      const width = this.view[1] - this.view[0];
      const acts = {
        ArrowLeft: () => this.#look(this.view[0] - width / 5, width),
        ArrowRight: () => this.#look(this.view[0] + width / 5, width),
        "+": () => this.zoom(0.5),
        "=": () => this.zoom(0.5),
        "-": () => this.zoom(2),
        0: () => this.reset(),
      };
      if (acts[event.key]) {
        acts[event.key]();
        event.preventDefault();
        event.stopPropagation();
      }
    });
  }

  #at(x, y) {
    const row = Math.floor((y - AXIS) / ROW);
    const time = this.view[0] + (x / this.canvas.clientWidth) * (this.view[1] - this.view[0]);
    const near = ((this.view[1] - this.view[0]) / this.canvas.clientWidth) * 2;
    const hits = this.spans.filter(
      (span) => span.row === row && span.started - near <= time && time <= span.ended + near,
    );
    return hits.at(-1) ?? null;
  }

  #point(event) {
    const span = this.#at(event.offsetX, event.offsetY);
    this.canvas.classList.toggle("over", Boolean(span));
    this.tip.hidden = !span;
    if (!span) return;
    const names = {
      iteration: "Iteration",
      cell: "Cell of iteration",
      kernel: "Kernel start before the cell of iteration",
      model: "Model",
      sub: "Sub-model",
      call: "Call",
      run: "Run",
      extraction: "Extraction",
      wait: "Wait:",
    };
    const name = ["cell", "kernel"].includes(span.kind) ? span.iteration : span.label;
    const figures = [seconds(span.ended - span.started)];
    if (span.tokens) figures.push(`${short(span.tokens)} tokens`);
    if (span.cost) figures.push(dollars(span.cost));
    if (span.cached) figures.push("cached");
    if (span.about) figures.push(plural(span.about.iterations_used, "iteration"));
    if (span.error) figures.push("error");
    this.tip.replaceChildren(h("b", {}, `${names[span.kind]} `, line(name, 60)), h("span", {}, figures.join(" · ")));
    const width = this.canvas.clientWidth;
    this.tip.style.setProperty("left", `${Math.max(4, Math.min(event.offsetX + 12, width - 230))}px`);
    this.tip.style.setProperty("top", `${event.offsetY + 16}px`);
  }

  draw() {
    if (!this.view) return;
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.#paint());
  }

  #paint() {
    const width = this.box.clientWidth;
    if (!width) return;
    const height = AXIS + this.rows * ROW + 6;
    const scale = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
      this.canvas.style.setProperty("height", `${height}px`);
    }
    const style = getComputedStyle(this.element);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const pen = this.canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = `11px ${style.fontFamily}`;
    pen.textBaseline = "middle";
    const [from, to] = this.view;
    const x = (time) => ((time - from) / (to - from)) * width;
    this.#axis(pen, width, height, colour, x);
    const colours = Object.fromEntries(
      ["run", "iteration", "model", "kernel", "cell", "call", "sub", "extraction", "wait"].map((kind) => [
        kind,
        [colour(`flame-${kind}`), colour(`flame-${kind}-ink`)],
      ]),
    );
    const drawn = new Float64Array(MAX_ROWS).fill(-1);
    for (const span of this.spans) {
      const left = x(span.started);
      const right = x(span.ended);
      if (right < 0 || left > width) continue;
      const shownRight = Math.max(right, left + SMALLEST);
      if (shownRight - left < 3 && shownRight <= drawn[span.row] + 0.5) continue; // under a bar that is there already
      drawn[span.row] = Math.max(drawn[span.row], shownRight);
      this.#bar(pen, span, Math.max(left, -2), Math.min(shownRight, width + 2), colours[span.kind], colour);
    }
    if (this.model?.trigger) this.#trigger(pen, x(this.model.trigger.time), height, colour("warn"), width);
  }

  #bar(pen, span, left, right, [ink, words], colour) {
    const top = AXIS + span.row * ROW;
    const wide = right - left;
    const inside = wide > 3 ? 0.5 : 0;
    pen.fillStyle = ink;
    pen.beginPath();
    pen.roundRect(left + inside, top + 1, Math.max(wide - 2 * inside, 1), ROW - 3, Math.min(3, wide / 3));
    pen.fill();
    if (span.error) {
      pen.fillStyle = colour("bad");
      pen.fillRect(left + inside, top + ROW - 5, Math.max(wide - 2 * inside, 1), 3);
    }
    if (span.kind === "iteration" && span.run === this.model.id && span.iteration === this.marked) {
      pen.strokeStyle = colour("accent");
      pen.lineWidth = 2;
      pen.stroke();
    }
    if (wide > 26) {
      pen.fillStyle = words;
      let text = span.label.slice(0, 60);
      const room = wide - 10;
      if (pen.measureText(text).width > room) {
        const fits = Math.floor((room / Math.max(pen.measureText(text).width, 1)) * text.length) - 1;
        text = fits > 2 ? `${text.slice(0, fits)}…` : "";
      }
      if (text) pen.fillText(text, left + 5, top + ROW / 2);
    }
  }

  #axis(pen, width, height, colour, x) {
    const [from, to] = this.view;
    const most = Math.max(2, Math.floor(width / 90));
    const raw = (to - from) / most;
    const ten = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((factor) => factor * ten).find((size) => size >= raw);
    const origin = this.limits[0];
    pen.strokeStyle = colour("line");
    pen.fillStyle = colour("muted");
    pen.lineWidth = 1;
    for (let n = Math.ceil((from - origin) / step); origin + n * step <= to; n += 1) {
      const at = Math.round(x(origin + n * step)) + 0.5;
      pen.beginPath();
      pen.moveTo(at, AXIS - 4);
      pen.lineTo(at, height);
      pen.stroke();
      const text = n === 0 ? "0" : seconds(n * step);
      const near = this.model?.trigger && Math.abs(x(this.model.trigger.time) - at - 16) < 34;
      if (!near && at + pen.measureText(text).width < width) pen.fillText(text, at + 4, 8);
    }
  }

  #trigger(pen, at, height, ink, width) {
    if (at < 0 || at > width) return;
    pen.strokeStyle = ink;
    pen.fillStyle = ink;
    pen.lineWidth = 1.5;
    pen.setLineDash([4, 3]);
    pen.beginPath();
    pen.moveTo(at, 2);
    pen.lineTo(at, height);
    pen.stroke();
    pen.setLineDash([]);
    const wide = pen.measureText("trigger").width;
    pen.fillText("trigger", at + 5 + wide < width ? at + 5 : at - 5 - wide, 17);
  }
}
