const STATE_MARKS = { accepted: "✓", other: "", "": "" };
const FATE_MARKS = { stays: "=", moves: "←", freed: "×", "": "?" };
const FATE_WORDS = { stays: "stays", moves: "moves to an earlier slot", freed: "freed without moving a byte", "": "waits for the verdict" };

// One name for a node in the tree, the mask and the cache: its number, or P for the pending token.
export const nameOf = (id) => (id < 0 ? "P" : String(id));

// What the signs in sight mean, and no other.
export function legendOf(shown) {
  const fates = ["stays", "moves", "freed", ""].filter((fate) => shown.rows.some((row) => row.fate === fate));
  return [
    "P: the pending token; numbers are nodes.",
    shown.nodes.some((node) => node.state === "accepted") ? "✓ accepted path." : "",
    "Filled: visible. Outlined: the row of the chosen node; coloured in it: what it sees.",
    `Cache slots: ${fates.map((fate) => `${FATE_MARKS[fate]} ${FATE_WORDS[fate]}`).join(", ")}.`,
  ].filter(Boolean).join(" ");
}

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
    this.legend = element("p", "sd-caption sd-legend");
    const both = element("div", "sd-both");
    both.append(this.column("the tree", this.tree), this.column("the mask: row sees column", this.mask));
    this.root.append(this.frames.box, this.title, this.say, both, this.column("cache slots after the pass, and what becomes of them", this.rows), this.legend);
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
    this.legend.textContent = legendOf(this.shown);
    // what had it is gone: a key pressed next would go to the notebook
    if (hadFocus && !this.root.contains(document.activeElement)) this.tree.querySelector(".sd-node.sd-now")?.focus({ preventScroll: true });
  }

  sentence(selected) {
    if (selected < 0) return `“${this.shown.pending}” is the pending token, position ${this.shown.prefix}: already emitted, fed with the tree, seen by every node.`;
    const node = this.shown.nodes[selected];
    // a shape has no tokens: then the path is one of numbers
    const names = this.family.slice(1).map((id) => (this.shown.nodes[id].token ? `“${this.shown.nodes[id].token}”` : nameOf(id))).join(" → ");
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
    // a shape without tokens needs room for numbers alone
    const isShape = nodes.every((node) => !node.token);
    const [box, down] = [isShape ? 44 : 96, 34];
    const across = box + 24;
    const lanes = Math.max(1, ...nodes.map((node) => node.lane + 1));
    const [width, height] = [(this.shown.depth + 1) * across, lanes * down + 6];
    const chart = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
    // a deep tree shrinks a little before it scrolls
    chart.style.minWidth = `${0.75 * width}px`;
    const place = (id) => (id < 0 ? [0, 0] : [nodes[id].depth * across, nodes[id].lane * down]);
    for (const node of nodes) {
      const [[x0, y0], [x1, y1]] = [place(node.parent), place(node.id)];
      const inFamily = this.family.includes(node.id);
      chart.append(drawn("path", { d: `M${x0 + 4 + box},${y0 + 16}C${x1 - 6},${y0 + 16} ${x0 + across - 8},${y1 + 16} ${x1 + 4},${y1 + 16}`, class: `sd-edge sd-${node.state}${inFamily ? " sd-family" : ""}` }));
    }
    for (const id of [-1, ...nodes.map((node) => node.id)]) chart.append(this.nodeMark(id, id >= 0 ? nodes[id].token : isShape ? "" : pending, place(id), box, selected));
    return chart;
  }

  nodeMark(id, text, [x, y], box, selected) {
    const state = id < 0 ? "pending" : this.shown.nodes[id].state;
    const classes = `sd-node sd-${state}${this.family.includes(id) ? " sd-family" : ""}${id === selected ? " sd-now" : ""}`;
    const mark = drawn("g", { class: classes, transform: `translate(${x + 4},${y + 3})`, role: "button", tabindex: id === selected ? "0" : "-1", "aria-label": id < 0 ? `pending token ${this.shown.pending}` : `node ${id}${text ? `, token ${text}` : ""}${state === "accepted" ? ", accepted" : ""}` });
    mark.append(drawn("rect", { width: box, height: 26, rx: state === "accepted" ? 13 : 3 }));
    const shown = text.length > 9 ? `${text.slice(0, 8)}…` : text;
    const sign = STATE_MARKS[state] ? ` ${STATE_MARKS[state]}` : "";
    if (text) mark.append(drawn("text", { x: 7, y: 17, class: "sd-faint sd-name" }, nameOf(id)), drawn("text", { x: box / 2 + 8, y: 17, "text-anchor": "middle" }, shown + sign));
    else mark.append(drawn("text", { x: box / 2, y: 17, "text-anchor": "middle", class: "sd-name" }, nameOf(id) + sign));
    mark.append(drawn("title", {}, text ? `${nameOf(id)}: ${text}` : nameOf(id)));
    this.pick(mark, id);
    return mark;
  }

  maskDrawing(selected) {
    const { mask, prefix } = this.shown;
    const size = Math.max(7, Math.min(22, Math.floor(380 / (mask.length + 2))));
    // a column of the cache stands only where something is cached
    const [left, top, held] = [26, 30, prefix ? 1.5 * size : 0];
    const across = left + held + mask.length * size + 4;
    const chart = drawn("svg", { width: Math.max(120, across), height: top + mask.length * size + 4, role: "img", "aria-label": `attention mask of ${mask.length} fed rows` });
    const x = (column) => left + held + column * size;
    const y = (row) => top + row * size;
    const named = (index) => size > 9 || index % 5 === 1;
    const font = `font-size: ${size > 14 ? 12 : 9}px`;
    chart.append(drawn("text", { x: left, y: 11, class: "sd-faint" }, prefix ? "cache | fed tokens" : "fed tokens"));
    mask.forEach((cells, row) => {
      const name = nameOf(row - 1);
      if (named(row)) {
        chart.append(drawn("text", { x: left - 5, y: y(row + 0.75), "text-anchor": "end", class: "sd-faint sd-row-name", style: font }, name));
        chart.append(drawn("text", { x: x(row + 0.5), y: top - 4, "text-anchor": "middle", class: "sd-faint sd-column-name", style: font }, name));
      }
      if (prefix) {
        const cached = drawn("rect", { x: left, y: y(row), width: size * 1.2, height: size - 1, class: "sd-cell sd-on sd-cached" });
        cached.append(drawn("title", {}, `row ${name} sees all ${prefix} cached tokens`));
        chart.append(cached);
      }
      [...cells].forEach((cell, column) => {
        const inFamily = row === selected + 1 && cell === "1";
        const square = drawn("rect", { x: x(column), y: y(row), width: size - 1, height: size - 1, class: `sd-cell${cell === "1" ? " sd-on" : ""}${inFamily ? " sd-family" : ""}` });
        square.append(drawn("title", {}, `row ${name} ${cell === "1" ? "sees" : "does not see"} column ${nameOf(column - 1)}`));
        this.pick(square, row - 1);
        chart.append(square);
      });
    });
    chart.append(drawn("rect", { x: left - 1, y: y(selected + 1) - 1, width: held + mask.length * size + 2, height: size + 1, class: "sd-outline" }));
    return chart;
  }

  rowCell(row, selected) {
    const text = row.node < 0 ? this.shown.pending : this.shown.nodes[row.node].token;
    const cell = element("button", `sd-slot sd-fate-${row.fate || "waits"}${row.node === selected ? " sd-now" : ""}${this.family.includes(row.node) ? " sd-family" : ""}`, undefined, { type: "button", tabindex: "-1" });
    cell.append(element("b", "sd-name", nameOf(row.node)));
    if (text) cell.append(element("span", "sd-text", text));
    const mark = FATE_MARKS[row.fate];
    cell.append(element("span", "sd-caption", `slot ${row.row}`), element("span", "sd-fate", row.fate === "moves" ? `${mark} ${row.to}` : mark));
    cell.title = `${nameOf(row.node)} in cache slot ${row.row}: ${row.fate || "waits for the verdict"}${row.fate === "moves" ? ` to ${row.to}` : ""}`;
    this.pick(cell, row.node);
    return cell;
  }
}

export default widget(TreePage);
