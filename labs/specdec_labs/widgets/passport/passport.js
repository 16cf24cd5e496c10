const STATES = { solved: ["✓", "solved"], begun: ["◐", "begun"], new: ["○", "not begun"] };

class PassportPage {
  constructor(model) {
    this.model = model;
    this.selected = model.get("view").next;
    this.root = frame("passport", "Progress passport: tasks, hints and predictions");
    this.say = element("p", "sd-say", "", { role: "status", "aria-live": "polite" });
    this.bar = element("div", "sd-progress", undefined, { role: "img" });
    this.grid = element("div", "sd-sets");
    this.detail = element("p", "sd-detail", "", { "aria-live": "polite" });
    this.predictions = element("div");
    const row = element("div", "sd-row");
    const refresh = button("refresh", "read the notes again", () => model.send("refresh"));
    this.needing = [refresh];
    row.append(
      refresh,
      button("save JSON", "save the passport as JSON", () => download("passport.json", `${JSON.stringify({ schema: "specdec.passport", ...model.get("view") }, null, 1)}\n`, "application/json")),
      button("save CSV", "save the passport as CSV", () => download("passport.csv", model.get("csv"), "text/csv")),
    );
    this.root.append(this.say, this.bar, this.grid, this.detail, this.predictions, row,
      element("p", "sd-caption", "✓ solved, ◐ begun, ○ not begun. Kept in the folder work/ of your clone, nowhere else. Hints cost nothing."));
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.stop = follow(model, () => this.draw(model.get("view")));
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step || !event.target.classList?.contains("sd-task")) return;
    event.preventDefault();
    const tasks = [...this.grid.querySelectorAll(".sd-task")];
    const next = tasks[tasks.indexOf(event.target) + step];
    if (next) {
      next.focus();
      next.click();
    }
  }

  draw(view) {
    const { totals } = view;
    this.say.textContent = view.say;
    const share = totals.points ? totals.passed / totals.points : 0;
    const fill = element("div", "sd-filled");
    fill.style.width = `${100 * share}%`;
    this.bar.replaceChildren(fill);
    this.bar.setAttribute("aria-label", `${totals.passed} of ${totals.points} properties passed`);
    this.bar.title = this.bar.getAttribute("aria-label");
    this.grid.replaceChildren(...view.sets.map((group) => this.group(group)));
    this.show(view);
    this.predictions.replaceChildren(predictionTable(view.predictions));
  }

  group(group) {
    const box = element("div", "sd-set");
    box.append(element("h4", "", group.id));
    for (const task of group.tasks) {
      const [mark, word] = STATES[task.state];
      const node = button("", `${task.id}, ${task.title}: ${word}, ${task.passed} of ${task.points} properties`, () => {
        this.selected = task.id;
        this.show(this.model.get("view"));
      });
      node.className = `sd-task sd-${task.state}`;
      node.dataset.task = task.id;
      node.append(element("span", "sd-mark", mark), element("span", "", task.id.split(".")[1]), element("span", "sd-caption", `${task.passed}/${task.points}`));
      box.append(node);
    }
    return box;
  }

  show(view) {
    const task = view.sets.flatMap((group) => group.tasks).find((entry) => entry.id === this.selected);
    for (const node of this.grid.querySelectorAll(".sd-task")) node.classList.toggle("sd-now", node.dataset.task === this.selected);
    if (!task) {
      this.detail.textContent = "";
      return;
    }
    const parts = [`${task.id}: ${task.title}`, `${task.minutes} minutes`, `difficulty ${task.difficulty} of 5`, `${task.passed} of ${task.points} properties passed`];
    if (task.museum) parts.push("a piece of the bug museum");
    if (task.solved_at) parts.push(`solved ${task.solved_at.slice(0, 10)}`);
    if (task.hints) parts.push(`hints opened: ${task.hints}`);
    if (task.solution_seen) parts.push("solution seen");
    this.detail.textContent = `${parts.join("; ")}.`;
  }
}

function predictionTable(predictions) {
  if (!predictions.length) return element("div");
  const table = element("table");
  const head = element("tr");
  for (const title of ["", "predicted", "your answer", "measured"]) head.append(element("th", "", title, { scope: "col" }));
  table.append(head);
  for (const entry of predictions) {
    const row = element("tr");
    for (const cell of [entry.right ? "✓" : "✗", entry.question, entry.answer, shortNumber(entry.measured, 3)]) row.append(element("td", "", cell));
    table.append(row);
  }
  return table;
}

export default widget(PassportPage);
