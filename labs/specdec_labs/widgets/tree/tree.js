const STATE_MARKS = { accepted: "✓", other: "", "": "" };
const FATE_MARKS = { stays: "=", moves: "←", freed: "×", "": "?" };

// The ancestors of a node with itself, the pending token (-1) first.
export function ancestry(nodes, id) {
  const path = [];
  for (let at = id; at >= 0; at = nodes[at].parent) path.unshift(at);
  return [-1, ...path];
}

// Where an arrow key leads: to the parent, the first child, or the sibling above or below in the picture.
export function neighbour(nodes, id, key) {
  const childrenOf = (node) => nodes.filter((entry) => entry.parent === node).map((entry) => entry.id);
  if (key === "ArrowLeft") return id < 0 ? id : nodes[id].parent;
  if (key === "ArrowRight") return childrenOf(id)[0] ?? id;
  if (id < 0) return id;
  const level = nodes.filter((entry) => entry.depth === nodes[id].depth).sort((a, b) => a.lane - b.lane).map((entry) => entry.id);
  const place = level.indexOf(id) + (key === "ArrowDown" ? 1 : -1);
  return level[place] ?? id;
}

const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

class TreePage {
  constructor(model) {
    this.model = model;
    this.root = frame("tree", "Draft tree with its attention mask and cache rows. Arrow keys move between nodes.");
    const frames = model.get("view").frames;
    this.frames = slider("tree", { min: 0, max: frames.length - 1, step: 1, value: model.get("frame"), show: (index) => frames[index].label, change: (index) => this.choose({ frame: index, selected: -1 }) });
    this.frames.box.hidden = frames.length < 2;
    this.title = element("p", "sd-title");
    this.say = element("p", "sd-say", "", { role: "status", "aria-live": "polite" });
    this.tree = element("div", "sd-drawing sd-branches");
    this.mask = element("div", "sd-drawing");
    this.rows = element("div", "sd-rows");
    const both = element("div", "sd-both");
    both.append(this.column("the tree", this.tree), this.column("the mask: row sees column", this.mask));
    this.root.append(this.frames.box, this.title, this.say, both, this.column("cache rows after the pass, and what becomes of them", this.rows), this.legend());
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.pointer = "";
    this.root.addEventListener("mousemove", (event) => this.moved(event));
    this.show = () => this.draw();
    model.on("change:frame", this.show);
    model.on("change:selected", this.show);
    this.draw();
  }

  stop() {
    this.model.off("change:frame", this.show);
    this.model.off("change:selected", this.show);
  }

  column(title, body) {
    const box = element("div", "sd-column");
    box.append(element("h4", "", title), body);
    return box;
  }

  legend() {
    return element("p", "sd-caption", "✓ accepted path. Filled: visible; the outlined row and columns belong to the chosen node and its ancestors. "
      + "Cache rows: = stays, ← moves to an earlier slot, × freed without moving a byte.");
  }

  choose(changes) {
    if (Object.entries(changes).every(([name, value]) => this.model.get(name) === value)) return;
    for (const [name, value] of Object.entries(changes)) this.model.set(name, value);
    this.model.save_changes();
  }

  key(event) {
    if (!event.key.startsWith("Arrow") || event.ctrlKey || event.metaKey || event.altKey || event.target.type === "range") return;
    event.preventDefault();
    this.choose({ selected: neighbour(this.shown.nodes, this.model.get("selected"), event.key) });
    this.tree.querySelector(".sd-node.sd-now")?.focus();
  }

  draw() {
    const view = this.model.get("view");
    const index = Math.max(0, Math.min(view.frames.length - 1, this.model.get("frame")));
    this.shown = view.frames[index];
    const selected = Math.min(this.model.get("selected"), this.shown.nodes.length - 1);
    const { label, leaves, depth, prefix } = this.shown;
    this.title.textContent = `${label} · ${counted(leaves, "path")}, depth ${depth}, after ${counted(prefix, "cached token")}`;
    this.family = ancestry(this.shown.nodes, selected);
    this.say.textContent = this.sentence(selected);
    if (document.activeElement !== this.frames.input) this.frames.set(index);
    const hadFocus = this.root.contains(document.activeElement);
    this.tree.replaceChildren(this.treeDrawing(selected));
    this.mask.replaceChildren(this.maskDrawing(selected));
    this.rows.replaceChildren(...this.shown.rows.map((row) => this.rowCell(row, selected)));
    // what had it is gone: a key pressed next would go to the notebook
    if (hadFocus && !this.root.contains(document.activeElement)) this.tree.querySelector(".sd-node.sd-now")?.focus({ preventScroll: true });
  }

  sentence(selected) {
    if (selected < 0) return `“${this.shown.pending}” is the pending token, position ${this.shown.prefix}: already emitted, fed with the tree, seen by every node.`;
    const node = this.shown.nodes[selected];
    const names = this.family.slice(1).map((id) => `“${this.shown.nodes[id].token}”`).join(" → ");
    const row = this.shown.rows[selected + 1];
    const fate = { stays: "its cache row stays", moves: `its cache row moves from ${row.row} to ${row.to}`, freed: "its cache row is freed", "": "" }[row.fate];
    const parts = [`Node ${selected}, position ${node.position}: ${names}`, node.note, node.state === "accepted" ? "accepted" : "", fate];
    return `${parts.filter(Boolean).join("; ")}.`;
  }

  // Whether the pointer is elsewhere than at its last event. A redraw puts a new element under a pointer that rests,
  // and the browser reports an enter for it, which must not undo what a key or the slider has chosen.
  moved(event) {
    const place = `${event.screenX},${event.screenY}`;
    const moved = place !== this.pointer;
    this.pointer = place;
    return moved;
  }

  pick(node, id) {
    node.addEventListener("click", () => this.choose({ selected: id }));
    node.addEventListener("mouseenter", (event) => this.moved(event) && this.choose({ selected: id }));
  }

  treeDrawing(selected) {
    const { nodes, pending } = this.shown;
    const [across, down] = [104, 34];
    const lanes = Math.max(1, ...nodes.map((node) => node.lane + 1));
    const [width, height] = [(this.shown.depth + 1) * across, lanes * down + 6];
    const chart = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
    // a deep tree shrinks a little before it scrolls
    chart.style.minWidth = `${0.75 * width}px`;
    const place = (id) => (id < 0 ? [0, 0] : [nodes[id].depth * across, nodes[id].lane * down]);
    for (const node of nodes) {
      const [[x0, y0], [x1, y1]] = [place(node.parent), place(node.id)];
      const inFamily = this.family.includes(node.id);
      chart.append(drawn("path", { d: `M${x0 + 84},${y0 + 16}C${x1 - 6},${y0 + 16} ${x0 + 96},${y1 + 16} ${x1 + 4},${y1 + 16}`, class: `sd-edge sd-${node.state}${inFamily ? " sd-family" : ""}` }));
    }
    for (const id of [-1, ...nodes.map((node) => node.id)]) chart.append(this.nodeMark(id, id < 0 ? pending : nodes[id].token, place(id), selected));
    return chart;
  }

  nodeMark(id, text, [x, y], selected) {
    const state = id < 0 ? "pending" : this.shown.nodes[id].state;
    const classes = `sd-node sd-${state}${this.family.includes(id) ? " sd-family" : ""}${id === selected ? " sd-now" : ""}`;
    const mark = drawn("g", { class: classes, transform: `translate(${x + 4},${y + 3})`, role: "button", tabindex: id === selected ? "0" : "-1", "aria-label": id < 0 ? `pending token ${text}` : `node ${id}, token ${text}${state === "accepted" ? ", accepted" : ""}` });
    mark.append(drawn("rect", { width: 80, height: 26, rx: state === "accepted" ? 13 : 3 }));
    const shown = text.length > 9 ? `${text.slice(0, 8)}…` : text;
    mark.append(drawn("text", { x: 40, y: 17, "text-anchor": "middle" }, `${shown}${STATE_MARKS[state] ? ` ${STATE_MARKS[state]}` : ""}`));
    mark.append(drawn("title", {}, text));
    this.pick(mark, id);
    return mark;
  }

  maskDrawing(selected) {
    const { mask, prefix } = this.shown;
    const size = Math.max(7, Math.min(22, Math.floor(380 / (mask.length + 2))));
    const left = 46;
    const chart = drawn("svg", { width: Math.max(150, left + (mask.length + 1.5) * size + 4), height: (mask.length + 1) * size + 18, role: "img", "aria-label": `attention mask of ${mask.length} fed rows` });
    const name = (row) => (row === 0 ? "pend." : String(row - 1));
    mask.forEach((cells, row) => {
      if (size > 9) chart.append(drawn("text", { x: left - 6, y: 16 + (row + 0.75) * size, "text-anchor": "end", class: "sd-faint" }, name(row)));
      const cached = drawn("rect", { x: left, y: 16 + row * size, width: size * 1.2, height: size - 1, class: "sd-cell sd-on" });
      cached.append(drawn("title", {}, `row ${name(row)} sees all ${prefix} cached tokens`));
      chart.append(cached);
      [...cells].forEach((cell, column) => {
        const inFamily = row === selected + 1 && cell === "1";
        const square = drawn("rect", { x: left + (column + 1.5) * size, y: 16 + row * size, width: size - 1, height: size - 1, class: `sd-cell${cell === "1" ? " sd-on" : ""}${inFamily ? " sd-family" : ""}` });
        square.append(drawn("title", {}, `row ${name(row)} ${cell === "1" ? "sees" : "does not see"} column ${name(column)}`));
        this.pick(square, row - 1);
        chart.append(square);
      });
    });
    chart.append(drawn("text", { x: left, y: 12, class: "sd-faint" }, "cache | fed rows"));
    chart.append(drawn("rect", { x: left - 1, y: 15 + (selected + 1) * size, width: (mask.length + 1.5) * size + 2, height: size + 1, class: "sd-outline" }));
    return chart;
  }

  rowCell(row, selected) {
    const text = row.node < 0 ? this.shown.pending : this.shown.nodes[row.node].token;
    const cell = element("button", `sd-slot sd-fate-${row.fate || "waits"}${row.node === selected ? " sd-now" : ""}${this.family.includes(row.node) ? " sd-family" : ""}`, undefined, { type: "button", tabindex: "-1" });
    cell.append(element("span", "sd-caption", String(row.row)), element("span", "sd-text", text), element("span", "sd-fate", row.fate === "moves" ? `← ${row.to}` : FATE_MARKS[row.fate]));
    cell.title = `cache row ${row.row}: ${row.fate || "waits for the verdict"}${row.fate === "moves" ? ` to ${row.to}` : ""}`;
    this.pick(cell, row.node);
    return cell;
  }
}

export default widget(TreePage);
