class CardPage {
  constructor(model) {
    this.model = model;
    const { question, options } = model.get("view");
    this.root = frame("card", `Prediction: ${question}`);
    this.say = element("p", "sd-say", "", { role: "status", "aria-live": "polite" });
    this.buttons = options.map((option) => button(option, option, () => model.get("view").is_revealed || send(model, { answer: option })));
    const row = element("div", "sd-row");
    row.append(...this.buttons);
    row.addEventListener("keydown", (event) => this.key(event));
    this.root.append(element("p", "sd-question", question), row, this.say);
    this.needing = [row];
    this.stop = follow(model, () => this.draw(model.get("view")));
  }

  // Arrows move between the answers and choose none: an answer that is revealed cannot be taken back.
  key(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.buttons[this.buttons.indexOf(document.activeElement) + step]?.focus();
  }

  draw(view) {
    for (const node of this.buttons) {
      node.setAttribute("aria-pressed", node.textContent === view.answer);
      // not `disabled`, which would throw the focus out of the card
      node.setAttribute("aria-disabled", view.is_revealed);
    }
    this.say.textContent = view.say;
  }
}

export default widget(CardPage);
