// Asking: sessions, their questions and answers, as `rlm serve` has them. The token is kept for as long as the tab.

import { QuestionCard } from "../components/question_card.js";
import { h } from "../lib/dom.js";
import { ago, bytes, plural } from "../lib/format.js";
import { api, follow, inputOf, keepToken, tokenOfTab, variableOf } from "../lib/serve_client.js";
import { line, shown } from "../lib/untrusted_text.js";

const SHORT_PREVIEW = 80;

export class AskPage {
  title = "Ask";

  constructor({ source, go, id }) {
    this.source = source;
    this.go = go;
    this.id = id;
    this.stopped = new AbortController();
    this.side = h("aside", { class: "ask-side" });
    this.main = h("div", { class: "ask-main" });
    this.element = h("main", { class: "ask-page" }, this.side, this.main);
  }

  async start() {
    if (!tokenOfTab()) {
      this.#askForToken();
      return;
    }
    try {
      const [me, models, sessions] = await Promise.all([api.me(), api.models(), api.sessions()]);
      this.models = models.data;
      this.#showSide(me, sessions.data);
      await (this.id ? this.#showSession() : this.#showNew());
    } catch (error) {
      if (error.status !== 401) throw error;
      keepToken(null);
      this.#askForToken(error.message);
    }
  }

  close() {
    this.stopped.abort();
  }

  #askForToken(problem) {
    const input = h("input", { type: "password", class: "search", autocomplete: "off", "aria-label": "Token", placeholder: "rlm_…" });
    const enter = async () => {
      keepToken(input.value.trim());
      await this.start();
    };
    input.addEventListener("keydown", (event) => event.key === "Enter" && enter());
    this.side.replaceChildren();
    this.main.replaceChildren(
      h(
        "section",
        { class: "card ask-token" },
        h("h1", {}, "Token"),
        h("p", { class: "muted" }, "`rlm tokens add NAME` prints one. It is kept for as long as this tab is open."),
        problem && h("p", { class: "problem" }, shown(problem)),
        h("div", { class: "ask-row" }, input, h("button", { type: "button", class: "button main", on: { click: enter } }, "Enter")),
      ),
    );
    input.focus();
  }

  #showSide(me, sessions) {
    const leave = () => {
      keepToken(null);
      this.#askForToken();
    };
    this.side.replaceChildren(
      h("a", { class: "button main", href: "#/ask" }, "New session"),
      h(
        "nav",
        { class: "ask-sessions", "aria-label": "Sessions" },
        sessions.map((session) =>
          h(
            "a",
            { href: `#/ask/${encodeURIComponent(session.id)}`, "aria-current": session.id === this.id ? "page" : null },
            h("span", { class: "ask-title" }, line(session.title || "No question yet", SHORT_PREVIEW)),
            h("span", { class: "muted" }, `${session.model} · ${session.busy ? "answering" : ago(session.updated)}`),
          ),
        ),
      ),
      h(
        "p",
        { class: "muted ask-me" },
        line(`${me.name}: ${me.sessions} of ${plural(me.limits.sessions, "session")}`, 100),
        h("button", { type: "button", class: "button small", on: { click: leave } }, "Leave"),
      ),
    );
  }

  async #showNew() {
    const models = this.models.filter((model) => model.rlm.sessions);
    if (!models.length) {
      this.main.replaceChildren(h("p", { class: "problem" }, "No task of this server has sessions."));
      return;
    }
    const select = h(
      "select",
      { class: "select", "aria-label": "Task" },
      models.map((model) => h("option", { value: model.id }, model.id)),
    );
    const fields = h("div", { class: "ask-inputs" });
    const values = new Map();
    const show = () => {
      values.clear();
      const model = models.find((one) => one.id === select.value);
      const wanted = model.rlm.inputs.filter((input) => input.required);
      fields.replaceChildren(
        h("p", { class: "muted" }, shown(model.rlm.instructions)),
        ...wanted.map((input) => this.#inputField(input, values)),
        this.#filesField(values),
      );
    };
    select.addEventListener("change", show);
    show();
    const { box, problem } = this.#composer("Ask the first question…", async (text) => {
      const inputs = {};
      for (const [name, make] of values) inputs[name] = await make();
      const session = await api.open(select.value, inputs);
      await api.ask(session.id, text);
      this.go(`#/ask/${session.id}`);
    });
    this.main.replaceChildren(
      h(
        "section",
        { class: "card ask-new" },
        h("div", { class: "card-head" }, h("h1", {}, "New session"), models.length > 1 && select),
        fields,
        problem,
        box,
      ),
    );
  }

  // One input of the task: a text, or a file.
  #inputField(input, values) {
    const text = h("textarea", { rows: 3, "aria-label": input.name, placeholder: input.type === "str" ? "Text, or a file" : `JSON: ${input.type}` });
    const file = h("input", { type: "file", "aria-label": `${input.name} from a file` });
    const size = h("span", { class: "muted" });
    values.set(input.name, async () => {
      if (file.files.length) return inputOf(file.files[0]);
      return input.type === "str" ? text.value : JSON.parse(text.value);
    });
    file.addEventListener("change", () => {
      text.disabled = file.files.length > 0;
      size.replaceChildren(file.files.length ? bytes(file.files[0].size) : "");
    });
    return h(
      "div",
      { class: "ask-input" },
      h("label", {}, h("b", {}, shown(input.name)), " ", h("code", { class: "muted" }, shown(input.type))),
      text,
      h("div", { class: "ask-row" }, file, size),
    );
  }

  #filesField(values) {
    const file = h("input", { type: "file", multiple: true, "aria-label": "Further files" });
    const names = h("span", { class: "muted" });
    let own = [];
    file.addEventListener("change", () => {
      own.forEach((name) => values.delete(name));
      own = [];
      for (const one of file.files) {
        let name = variableOf(one.name);
        for (let number = 2; values.has(name); number += 1) name = `${variableOf(one.name)}_${number}`;
        values.set(name, () => inputOf(one));
        own.push(name);
      }
      names.replaceChildren(own.length ? `variables ${own.join(", ")}` : "");
    });
    return h("div", { class: "ask-input" }, h("label", {}, "Further files, each a variable"), h("div", { class: "ask-row" }, file, names));
  }

  async #showSession() {
    const session = await api.session(this.id);
    this.cards = h("div", { class: "ask-cards" });
    for (const question of session.questions) this.#addCard(question);
    const { box, problem } = this.#composer("Ask again…", async (text) => {
      const run = await api.ask(this.id, text);
      this.#addCard({ asked: { question: text }, run: run.id, status: "running", outputs: null });
    });
    this.vars = h("details", { class: "fold ask-vars" });
    this.#showVariables(session);
    const remove = async () => {
      await api.remove(this.id);
      this.go("#/ask");
    };
    this.main.replaceChildren(
      h(
        "div",
        { class: "ask-head" },
        h("h1", {}, line(session.title || "Session", 120)),
        h("span", { class: "muted" }, `${session.model} · ${bytes(session.bytes)} sent`),
        h("button", { type: "button", class: "button small", on: { click: remove } }, "Delete"),
      ),
      this.cards,
      this.vars,
      h("section", { class: "card ask-again" }, problem, box),
    );
    this.cards.lastElementChild?.scrollIntoView({ block: "nearest" });
  }

  #showVariables(session) {
    this.vars.hidden = !session.variables.length;
    this.vars.replaceChildren(
      h("summary", {}, plural(session.variables.length, "variable")),
      h(
        "dl",
        { class: "ask-variables" },
        session.variables.map((one) => [
          h("dt", {}, h("code", {}, shown(one.name)), " ", h("span", { class: "muted" }, shown(one.type))),
          h("dd", {}, h("code", {}, line(one.preview, 160))),
        ]),
      ),
    );
  }

  #addCard(question) {
    const acts = {
      cancel: (run) => api.cancel(run),
      resume: async () => {
        const run = await api.resume(this.id);
        card.element.remove();
        this.#addCard({ ...question, run: run.id, status: "running" });
      },
    };
    const card = new QuestionCard(this.source, question, acts);
    this.cards.append(card.element);
    if (question.status === "running") this.#followCard(card);
  }

  async #followCard(card) {
    try {
      await follow(
        card.run,
        (kind, data) => (kind === "result" ? card.show(data.ending, data.result?.outputs ?? data.result?.partial_outputs, data.result) : card.take(kind, data)),
        this.stopped.signal,
      );
      if (this.stopped.signal.aborted) return;
      const [me, sessions, session] = await Promise.all([api.me(), api.sessions(), api.session(this.id)]);
      this.#showSide(me, sessions.data);
      this.#showVariables(session);
    } catch (error) {
      card.answer.append(h("p", { class: "problem" }, shown(error.message)));
    }
  }

  #composer(hint, act) {
    const text = h("textarea", { rows: 2, "aria-label": "Question", placeholder: hint });
    const button = h("button", { type: "button", class: "button main" }, "Ask");
    const problem = h("p", { class: "problem", role: "alert", hidden: true });
    const send = async () => {
      if (!text.value.trim() || button.disabled) return;
      button.disabled = true;
      problem.hidden = true;
      try {
        await act(text.value);
        text.value = "";
      } catch (error) {
        problem.replaceChildren(shown(error.message));
        problem.hidden = false;
      }
      button.disabled = false;
    };
    button.addEventListener("click", send);
    text.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey) return;
      event.preventDefault();
      send();
    });
    return { box: h("div", { class: "ask-row" }, text, button), problem };
  }
}
