const MAP = { width: 620, height: 400, left: 46, right: 12, top: 14, bottom: 40 };
const MARKS = { measured: "◆", quoted: "□" };
const NUMBERS = ["batch", "context", "devices"];

// Where the map puts a value of alpha and a window, and back.
export function mapScale(view) {
  const { width, height, left, right, top, bottom } = MAP;
  const rows = view.gammas.length;
  const cell = [(width - left - right) / (view.alphas.length - 1), (height - top - bottom) / rows];
  return {
    cell,
    x: (alpha) => left + alpha * (width - left - right),
    y: (gamma) => height - bottom - (Math.min(gamma, rows + 0.5) - 0.5) * cell[1],
    alpha: (x) => Math.max(0, Math.min(1, Math.round((100 * (x - left)) / (width - left - right)) / 100)),
    gamma: (y) => Math.max(1, Math.min(rows, Math.ceil((height - bottom - y) / cell[1]))),
  };
}

// From slow (1/4) through 1 to fast (4): a share of the one colour or of the other.
export function shade(value) {
  const strength = Math.max(-1, Math.min(1, Math.log2(Math.max(value, 1e-6)) / 2));
  return { isFast: strength > 0, strength: Math.abs(strength) };
}

export function csvOf(view) {
  const lines = ["alpha,gamma,speedup,kind,label"];
  const kind = view.settings.cost === "ratio" ? "formula" : view.settings.cost;
  view.gammas.forEach((gamma, row) => view.alphas.forEach((alpha, column) => lines.push(`${alpha},${gamma},${view.cells[row][column]},${kind},`)));
  for (const point of view.points) lines.push(`${point.alpha},${point.gamma},${point.speedup},${point.origin},"${point.label.replaceAll('"', '""')}"`);
  return lines.join("\n") + "\n";
}

// Where the values of points go: above, below or beside their marks, over no mark and no other value. Points that
// crowd leave some without a place (null); the table under the map has them all.
export function labelPlaces(points, scale, names = []) {
  const marks = points.map((point) => [scale.x(point.alpha), scale.y(point.gamma)]);
  const taken = [...names];
  return marks.map(([x, y], index) => {
    const isFree = ([a, b]) => a > MAP.left + 21 && a < MAP.width - 21 && b > MAP.top + 24 && b < MAP.height - MAP.bottom
      && taken.every(([c, d]) => Math.abs(a - c) > 43 || Math.abs(b - d) > 13)
      && marks.every(([c, d], other) => other === index || Math.abs(a - c) > 29 || Math.abs(b - 4 - d) > 12);
    const place = [[x, y - 9], [x, y + 21], [x + 30, y + 5], [x - 30, y + 5]].find(isFree) ?? null;
    if (place) taken.push(place);
    return place;
  });
}

// Where the names of contours go: at the top of their line, or lower on it where a name or a mark is in the way.
export function contourPlaces(view, scale) {
  const busy = view.points.map((point) => [scale.x(point.alpha), scale.y(point.gamma)]);
  const taken = [];
  const levels = Object.entries(view.contours).sort((one, other) => one[0] - other[0]);
  for (const [level, alphas] of levels) {
    const places = view.gammas.flatMap((gamma, row) => (alphas[row] === null ? [] : [[scale.x(alphas[row]), scale.y(gamma)]]));
    const inside = places.reverse().map(([x, y], index) => [Math.max(MAP.left + 14, Math.min(x, MAP.width - 26)), index ? y + 4 : Math.max(y + 4, MAP.top + 16)]);
    const isFree = ([a, b]) => taken.every(([, [c, d]]) => Math.abs(a - c) > 34 || Math.abs(b - d) > 15)
      && busy.every(([c, d]) => Math.abs(a - c) > 30 || Math.abs(b - d) > 26);
    const place = inside.find(isFree);
    if (place) taken.push([`${level}x`, place]);
  }
  return taken;
}

class SpeedupPage {
  constructor(model) {
    this.model = model;
    const view = model.get("view");
    const start = view.settings;
    this.root = frame("speedup", "Speed-up explorer: acceptance, window and cost");
    const set = (name) => (value) => send(model, { [name]: value });
    this.alpha = slider("alpha", { min: 0, max: 1, step: 0.01, value: start.alpha, show: (a) => a.toFixed(2), change: set("alpha") });
    this.gamma = slider("gamma", { min: 1, max: view.gammas.length, step: 1, value: start.gamma, show: String, change: set("gamma") });
    this.mode = chooser("costs from", view.choices.cost, start.cost, set("cost"));
    this.c = slider("c", { min: 0, max: 1, step: 0.005, value: start.c, show: (c) => c.toFixed(3), change: set("c") });
    this.menus = Object.fromEntries(["hardware", "target", "drafter"].map((name) => [name, chooser(name, view.choices[name], start[name], set(name))]));
    this.numbers = Object.fromEntries(NUMBERS.map((name) => [name, this.numberField(name, start[name])]));
    this.measuredDrafter = chooser("drafts from", view.choices.measured_drafter, start.measured_drafter, set("measured_drafter"));
    this.ratioRow = this.row(this.c.box);
    this.measuredRow = this.row(this.measuredDrafter.box);
    this.roofRow = this.row(...Object.values(this.menus).map((menu) => menu.box), ...NUMBERS.map((name) => this.numbers[name].box));
    this.problem = problemLine();
    this.costs = element("p", "sd-caption");
    this.say = element("p", "sd-say", "", { role: "status", "aria-live": "polite" });
    this.map = this.buildMap();
    this.side = element("div", "sd-side");
    const both = element("div", "sd-both");
    both.append(this.map, this.side);
    this.points = element("div", "sd-points");
    this.link = element("input", "sd-link", undefined, { type: "text", readonly: "", "aria-label": "link with these settings" });
    this.root.append(this.row(this.alpha.box, this.gamma.box, this.mode.box), this.ratioRow, this.measuredRow, this.roofRow, this.problem, this.say,
      this.costs, both, this.legend(), this.points, this.exports());
    this.needing = [...this.root.children];
    this.stopFollowing = follow(model, () => this.draw(model.get("view")));
    // the theme may change under a finished drawing
    this.watcher = new MutationObserver(() => this.paint(this.model.get("view")));
    this.watcher.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "class"] });
    // a page may be built before it is on the screen, where it has no colours yet: black on black
    this.sizer = new ResizeObserver(() => this.paint(this.model.get("view")));
    this.sizer.observe(this.map);
    this.fromAddress();
  }

  stop() {
    this.watcher.disconnect();
    this.sizer.disconnect();
    this.stopFollowing();
  }

  row(...nodes) {
    const row = element("div", "sd-row");
    row.append(...nodes);
    return row;
  }

  numberField(name, value) {
    const input = element("input", "sd-count", undefined, { type: "text", inputmode: "numeric", "aria-label": name });
    input.value = value;
    input.addEventListener("change", () => send(this.model, { [name]: /^\d+$/.test(input.value.trim()) ? Number(input.value) : input.value }));
    return { box: labelled(name, input), input };
  }

  buildMap() {
    const canvas = element("canvas", "sd-map", undefined, { role: "img", tabindex: "0" });
    const move = (event) => {
      const view = this.model.get("view");
      const area = canvas.getBoundingClientRect();
      const scale = mapScale(view);
      const ratio = MAP.width / area.width;
      this.go(scale.alpha((event.clientX - area.left) * ratio), scale.gamma((event.clientY - area.top) * ratio));
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      move(event);
    });
    canvas.addEventListener("pointermove", (event) => canvas.hasPointerCapture(event.pointerId) && move(event));
    canvas.addEventListener("keydown", (event) => this.key(event));
    return canvas;
  }

  key(event) {
    const step = { ArrowLeft: [-0.02, 0], ArrowRight: [0.02, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const rows = this.model.get("view").gammas.length;
    const now = latest(this.model);
    const alpha = Math.round(100 * (now.alpha + step[0])) / 100;
    this.go(Math.max(0, Math.min(1, alpha)), Math.max(1, Math.min(rows, now.gamma + step[1])));
  }

  go(alpha, gamma) {
    this.alpha.set(alpha);
    this.gamma.set(gamma);
    send(this.model, { alpha, gamma });
  }

  legend() {
    const box = element("p", "sd-caption");
    box.textContent = "Blue: faster than plain; orange, hatched: slower. Thick line: break-even (1x); thin lines: 1.5x, 2x, 3x, 4x. "
      + "Dotted: the best gamma at each alpha. Ring: your place. ◆ measured, □ quoted from the seed documents. "
      + "In the table, ◆ are expected at the measured costs of their own machine where those are given, with every round drafting gamma tokens. Click, drag or use the arrow keys on the map.";
    return box;
  }

  exports() {
    return this.row(
      button("save PNG", "save the map as PNG", () => download("speedup.png", this.map.toDataURL("image/png"))),
      button("save CSV", "save the numbers as CSV", () => download("speedup.csv", csvOf(this.model.get("view")), "text/csv")),
      labelled("link", this.link),
    );
  }

  // An address that ends in "#speedup?alpha=..." sets the explorer once, when it appears.
  fromAddress() {
    const [, query] = location.hash.split("#speedup?");
    if (!query) return;
    const known = this.model.get("view").settings;
    const found = {};
    for (const [name, text] of new URLSearchParams(query)) {
      if (name in known) found[name] = typeof known[name] === "number" ? Number(text) : text;
    }
    send(this.model, found);
  }

  draw(view) {
    this.problem.show(view.problem || view.warning);
    const { here } = view;
    const settings = latest(this.model);
    this.ratioRow.hidden = settings.cost !== "ratio";
    this.roofRow.hidden = settings.cost !== "roofline";
    this.measuredRow.hidden = settings.cost !== "measured";
    this.measuredDrafter.select.value = settings.measured_drafter || view.choices.measured_drafter[0]?.[0];
    this.gamma.input.max = view.gammas.length;
    this.mode.select.value = settings.cost;
    if (document.activeElement !== this.alpha.input) this.alpha.set(settings.alpha);
    if (document.activeElement !== this.gamma.input) this.gamma.set(settings.gamma);
    if (document.activeElement !== this.c.input) this.c.set(settings.c);
    for (const name of Object.keys(this.menus)) this.menus[name].select.value = settings[name];
    if (!view.problem) for (const name of NUMBERS) this.numbers[name].input.value = settings[name];
    this.costs.textContent = `Costs: ${view.costs}.`;
    this.say.textContent = `${here.speedup > 1 ? "▲" : here.speedup === 1 ? "=" : "▼"} ${here.say}`;
    this.say.classList.toggle("sd-slow", here.speedup < 1);
    this.map.setAttribute("aria-label", `Map of the speed-up over alpha and gamma. ${here.say}`);
    this.link.value = `${location.href.split("#")[0]}#${view.link}`;
    this.paint(view);
    this.side.replaceChildren(sliceChart(view));
    this.points.replaceChildren(pointTable(view.points));
  }

  paint(view) {
    if (!this.root.isConnected) return;
    const dense = window.devicePixelRatio || 1;
    this.map.width = MAP.width * dense;
    this.map.height = MAP.height * dense;
    const pen = this.map.getContext("2d");
    pen.scale(dense, dense);
    const style = getComputedStyle(this.root);
    const colour = (name) => style.getPropertyValue(`--sd-${name}`).trim();
    const look = { ink: colour("ink"), soft: colour("soft"), paper: colour("paper"), fast: colour("p"), slow: colour("q") };
    paintMap(pen, view, look);
  }
}

function paintMap(pen, view, look) {
  const scale = mapScale(view);
  pen.fillStyle = look.paper;
  pen.fillRect(0, 0, MAP.width, MAP.height);
  paintCells(pen, view, scale, look);
  pen.lineCap = "round";
  const names = contourPlaces(view, scale);
  for (const [level, alphas] of Object.entries(view.contours).sort((one, other) => one[0] - other[0])) {
    const places = view.gammas.flatMap((gamma, row) => (alphas[row] === null ? [] : [[scale.x(alphas[row]), scale.y(gamma)]]));
    line(pen, places, look.ink, level === "1" ? 3 : 1);
  }
  pen.setLineDash([1, 5]);
  line(pen, view.ridge.flatMap((gamma, column) => (gamma ? [[scale.x(view.alphas[column]), scale.y(gamma)]] : [])), look.ink, 3);
  pen.setLineDash([]);
  for (const [name, place] of names) outlined(pen, name, ...place, look, "12px");
  paintAxes(pen, view, scale, look);
  paintPoints(pen, view.points, scale, look, names);
  const [x, y] = [scale.x(view.here.alpha), scale.y(view.here.gamma)];
  for (const [radius, colour] of [[9, look.paper], [8, look.ink]]) {
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.strokeStyle = colour;
    pen.lineWidth = 3;
    pen.stroke();
  }
}

function paintCells(pen, view, scale, look) {
  const [width, height] = scale.cell;
  pen.save();
  pen.beginPath();
  pen.rect(MAP.left, MAP.top, MAP.width - MAP.left - MAP.right, MAP.height - MAP.top - MAP.bottom);
  pen.clip();
  view.cells.forEach((values, row) => values.forEach((value, column) => {
    const { isFast, strength } = shade(value);
    const [x, y] = [Math.round(scale.x(view.alphas[column]) - width / 2), Math.round(scale.y(view.gammas[row]) - height / 2)];
    const [right, low] = [Math.round(scale.x(view.alphas[column]) + width / 2), Math.round(scale.y(view.gammas[row]) + height / 2)];
    pen.globalAlpha = 0.15 + 0.75 * strength;
    pen.fillStyle = isFast ? look.fast : look.slow;
    pen.fillRect(x, y, right - x, low - y);
    if (value < 1) {
      pen.globalAlpha = 0.5;
      line(pen, [[x, low], [right, y]], look.ink, 0.7);
    }
  }));
  pen.restore();
}

function line(pen, places, colour, width) {
  pen.beginPath();
  places.forEach(([x, y], index) => (index ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.stroke();
}

function paintAxes(pen, view, scale, look) {
  pen.fillStyle = look.ink;
  pen.font = "12px system-ui, sans-serif";
  pen.textAlign = "center";
  for (const alpha of [0, 0.2, 0.4, 0.6, 0.8, 1]) pen.fillText(alpha.toFixed(1), Math.min(scale.x(alpha), MAP.width - 14), MAP.height - 22);
  pen.fillText("alpha: accepted / tested", (MAP.left + MAP.width) / 2, MAP.height - 6);
  pen.textAlign = "right";
  for (const gamma of view.gammas) if (gamma === 1 || gamma % 4 === 0) pen.fillText(gamma, MAP.left - 6, scale.y(gamma) + 4);
  pen.save();
  pen.translate(12, MAP.height / 2);
  pen.rotate(-Math.PI / 2);
  pen.textAlign = "center";
  pen.fillText("gamma: drafted per round", 0, 0);
  pen.restore();
}

function outlined(pen, text, x, y, look, size) {
  pen.font = `bold ${size} system-ui, sans-serif`;
  pen.textAlign = "center";
  pen.lineWidth = 4;
  pen.strokeStyle = look.paper;
  pen.fillStyle = look.ink;
  pen.strokeText(text, x, y);
  pen.fillText(text, x, y);
}

function paintPoints(pen, points, scale, look, names) {
  for (const point of points) outlined(pen, MARKS[point.origin], scale.x(point.alpha), scale.y(point.gamma) + 6, look, "17px");
  labelPlaces(points, scale, names.map(([, place]) => place)).forEach((place, index) => place && outlined(pen, `${points[index].speedup.toFixed(2)}x`, ...place, look, "12px"));
}

// The speed-up by window at the chosen alpha, with the line at 1.
function sliceChart(view) {
  const [width, height, left, bottom] = [300, 240, 36, 34];
  const chart = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `speed-up by gamma at alpha ${view.here.alpha}` });
  const top = Math.max(1.2, ...view.slice) * 1.05;
  const step = (width - left - 6) / view.slice.length;
  const y = (value) => 22 + (height - 22 - bottom) * (1 - value / top);
  chart.append(drawn("text", { x: left, y: 12 }, `speed-up at alpha ${shortNumber(view.here.alpha)}`));
  view.slice.forEach((value, gamma) => {
    const bar = drawn("rect", { x: left + gamma * step + 1, y: y(value), width: step - 2, height: y(0) - y(value), class: `sd-column${value < 1 ? " sd-slow" : ""}${gamma === view.here.gamma ? " sd-now" : ""}` });
    bar.append(drawn("title", {}, `gamma ${gamma}: ${value}`));
    chart.append(bar);
    if (gamma % 4 === 0) chart.append(drawn("text", { x: left + (gamma + 0.5) * step, y: height - bottom + 14, "text-anchor": "middle" }, gamma));
  });
  chart.append(drawn("path", { d: `M${left},${y(1)}H${width}`, class: "sd-level" }));
  for (const value of [0, 1, top / 1.05]) chart.append(drawn("text", { x: left - 4, y: y(value) + 4, "text-anchor": "end" }, value === 0 || value === 1 ? `${value}x` : `${value.toFixed(1)}x`));
  chart.append(drawn("text", { x: (left + width) / 2, y: height - 4, "text-anchor": "middle" }, "gamma (0: plain)"));
  return chart;
}

function pointTable(points) {
  if (!points.length) return element("div");
  const table = element("table");
  const head = element("tr");
  for (const title of ["", "point", "alpha", "gamma", "speed-up", "expected", "by", "ratio"]) head.append(element("th", "", title, { scope: "col" }));
  table.append(head);
  for (const point of points) {
    const row = element("tr");
    const cells = [MARKS[point.origin], `${point.label} (${point.origin})`, point.alpha.toFixed(2), point.gamma, `${point.speedup.toFixed(2)}x`, point.modelled === null ? "–" : `${point.modelled.toFixed(2)}x`, point.judged_by ?? "another machine", point.ratio?.toFixed(2) ?? "–"];
    for (const cell of cells) row.append(element("td", "", cell));
    table.append(row);
  }
  return table;
}

export default widget(SpeedupPage);
