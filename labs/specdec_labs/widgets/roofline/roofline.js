const PASS_MARKS = ["●", "◆", "▲"];

export function engineering(value) {
  const units = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  for (const [size, letter] of units) if (value >= size) return `${shortNumber(value / size, 3)} ${letter}`;
  return shortNumber(value, 3);
}

class RooflinePage {
  constructor(model) {
    this.model = model;
    const view = model.get("view");
    const start = view.settings;
    const set = (name) => (value) => send(model, { [name]: value });
    this.root = frame("roofline", "Roofline explorer: arithmetic intensity of a pass on a device");
    this.menus = Object.fromEntries(["hardware", "target"].map((name) => [name, chooser(name, view.choices[name], start[name], set(name))]));
    this.gamma = slider("gamma", { min: 0, max: 63, step: 1, value: start.gamma, show: String, change: set("gamma") });
    this.batch = slider("batch (powers of 2)", { min: 0, max: 10, step: 1, value: Math.round(Math.log2(start.batch)), show: (power) => String(2 ** power), change: (power) => send(model, { batch: 2 ** power }) });
    this.counts = Object.fromEntries(["context", "devices"].map((name) => [name, this.field(name, start[name])]));
    this.problem = problemLine();
    this.say = element("p", "sd-say", "", { role: "status", "aria-live": "polite" });
    this.gate = element("p", "sd-gate");
    this.charts = element("div", "sd-row");
    this.table = element("div");
    this.source = element("p", "sd-caption");
    this.root.append(this.row(this.menus.hardware.box, this.menus.target.box), this.row(this.gamma.box, this.batch.box, this.counts.context.box, this.counts.devices.box),
      this.problem, this.say, this.gate, this.charts, this.table, this.source);
    this.needing = [...this.root.children];
    this.stop = follow(model, () => this.draw(model.get("view")));
  }

  row(...nodes) {
    const row = element("div", "sd-row");
    row.append(...nodes);
    return row;
  }

  field(name, value) {
    const input = element("input", "sd-count", undefined, { type: "text", inputmode: "numeric", "aria-label": name });
    input.value = value;
    input.addEventListener("change", () => send(this.model, { [name]: /^\d+$/.test(input.value.trim()) ? Number(input.value) : input.value }));
    return { box: labelled(name, input), input };
  }

  draw(view) {
    this.problem.show(view.problem || view.warning);
    const settings = latest(this.model);
    for (const name of Object.keys(this.menus)) this.menus[name].select.value = settings[name];
    if (document.activeElement !== this.gamma.input) this.gamma.set(settings.gamma);
    this.say.textContent = view.say;
    this.gate.textContent = `${view.gate.met ? "✓" : "✗"} ${view.gate.say}`;
    this.charts.replaceChildren(roofChart(view), costChart(view));
    this.table.replaceChildren(passTable(view));
    this.source.textContent = `Modelled, one device, ${view.dtype}: peak ${engineering(view.peak)}FLOP/s, ${engineering(view.bandwidth)}B/s. ${view.source}. `
      + "The roof is the most a device can do at an intensity; a pass below its roof also waits for the link between devices.";
  }
}

function passTable(view) {
  const table = element("table");
  const head = element("tr");
  for (const title of ["", "pass", "FLOP/byte", "FLOP/s", "ms at least", "bound by"]) head.append(element("th", "", title, { scope: "col" }));
  table.append(head);
  view.passes.forEach((entry, index) => {
    const row = element("tr");
    const cells = [PASS_MARKS[index], entry.name, shortNumber(entry.intensity, 3), engineering(entry.flops_per_s), shortNumber(1000 * entry.seconds, 3), entry.bound];
    cells.forEach((cell, column) => row.append(element("td", column ? "" : `sd-pass-${index}`, cell)));
    table.append(row);
  });
  return table;
}

// Both axes logarithmic: intensity against what can be, and is, computed a second.
function roofChart(view) {
  const [width, height, left, bottom, top] = [484, 300, 58, 40, 26];
  // beside the axis there is room for the name of a pass
  const right = width - 66;
  const chart = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `Roofline. ${view.say}` });
  const intensities = view.passes.map((entry) => entry.intensity);
  const spanX = [Math.floor(Math.log10(Math.min(0.3, ...intensities))), Math.ceil(Math.log10(Math.max(2 * view.ridge, ...intensities)))];
  const low = Math.min(view.bandwidth * 10 ** spanX[0], ...view.passes.map((entry) => entry.flops_per_s));
  const spanY = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(view.peak) + 0.15)];
  const x = (value) => left + ((right - left) * (Math.log10(value) - spanX[0])) / (spanX[1] - spanX[0]);
  const y = (value) => top + (height - top - bottom) * (1 - (Math.log10(value) - spanY[0]) / (spanY[1] - spanY[0]));
  chart.append(drawn("text", { x: 4, y: 14 }, "FLOP/s that a device can reach"));
  for (let power = spanX[0]; power <= spanX[1]; power += 1) {
    chart.append(drawn("path", { d: `M${x(10 ** power)},${top}V${height - bottom}`, class: "sd-grid" }), drawn("text", { x: x(10 ** power), y: height - bottom + 15, "text-anchor": "middle", class: "sd-faint" }, shortNumber(10 ** power)));
  }
  for (let power = spanY[0]; power <= spanY[1]; power += 1) {
    chart.append(drawn("path", { d: `M${left},${y(10 ** power)}H${right}`, class: "sd-grid" }), drawn("text", { x: left - 5, y: y(10 ** power) + 4, "text-anchor": "end", class: "sd-faint" }, engineering(10 ** power)));
  }
  chart.append(drawn("text", { x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, "arithmetic intensity, FLOP/byte"));
  const [first, last] = [10 ** spanX[0], 10 ** spanX[1]];
  chart.append(drawn("path", { d: `M${x(first)},${y(first * view.bandwidth)}L${x(view.ridge)},${y(view.peak)}H${x(last)}`, class: "sd-roof" }));
  chart.append(drawn("path", { d: `M${x(view.ridge)},${y(view.peak)}V${height - bottom}`, class: "sd-level" }));
  chart.append(drawn("text", { x: x(view.ridge) - 4, y: height - bottom - 6, "text-anchor": "end" }, `ridge ${shortNumber(view.ridge, 3)}`));
  const names = [];
  view.passes.forEach((entry, index) => {
    const mark = drawn("text", { x: x(entry.intensity), y: y(entry.flops_per_s) + 6, "text-anchor": "middle", class: `sd-pass sd-pass-${index}` }, PASS_MARKS[index]);
    mark.append(drawn("title", {}, `${entry.name}: ${shortNumber(entry.intensity)} FLOP/byte, ${engineering(entry.flops_per_s)}FLOP/s`));
    if (index === 1 && view.settings.gamma === 0) return;
    // above the slope, under the flat roof; names that would lie on one another go a line lower
    const isSloped = index === 1 && entry.intensity < view.ridge / 2;
    let across = Math.min(x(entry.intensity) + [38, isSloped ? -38 : 0, 0][index], width - 36);
    // a name is about 6.5 wide a letter; it does not cross the line of the ridge, right of which the roof is flat
    const room = 3.25 * entry.name.length + 6;
    if (Math.abs(across - x(view.ridge)) < room) across = x(view.ridge) + room;
    let down = y(entry.flops_per_s) + [18, isSloped ? -8 : 26, 26][index];
    while (names.some(([other, low]) => Math.abs(other - across) < 68 && Math.abs(low - down) < 13)) down += 13;
    names.push([across, down]);
    chart.append(mark, drawn("text", { x: across, y: down, "text-anchor": "middle" }, entry.name));
  });
  return chart;
}

function costChart(view) {
  const [width, height, left, bottom, top] = [400, 300, 44, 40, 26];
  const chart = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "Time of a pass by tokens a sequence" });
  const curve = view.curve.filter(([rows]) => rows <= 64 || view.settings.gamma > 40);
  const most = curve[curve.length - 1][0];
  const high = Math.max(2, ...curve.map(([, time]) => time)) * 1.05;
  const x = (rows) => left + ((width - left - 22) * (rows - 1)) / (most - 1);
  const y = (time) => top + (height - top - bottom) * (1 - time / high);
  chart.append(drawn("text", { x: 4, y: 14 }, "time of a pass, in single steps"));
  const shown = [];
  for (const time of [0, Math.floor(high), 1, 2, Math.floor(high / 2)]) {
    if (shown.some((other) => Math.abs(y(other) - y(time)) < 14)) continue;
    shown.push(time);
    chart.append(drawn("path", { d: `M${left},${y(time)}H${width - 22}`, class: time === 1 ? "sd-level" : "sd-grid" }), drawn("text", { x: left - 5, y: y(time) + 4, "text-anchor": "end", class: "sd-faint" }, `${time}x`));
  }
  for (const rows of [1, most / 4, most / 2, most]) chart.append(drawn("text", { x: x(rows), y: height - bottom + 15, "text-anchor": "middle", class: "sd-faint" }, rows));
  chart.append(drawn("text", { x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, "tokens a sequence in the pass"));
  chart.append(drawn("path", { d: curve.map(([rows, time], index) => `${index ? "L" : "M"}${x(rows)},${y(time)}`).join(""), class: "sd-roof" }));
  const verify = view.passes[1];
  chart.append(drawn("text", { x: x(verify.rows), y: y(view.relative) + 6, "text-anchor": "middle", class: "sd-pass sd-pass-1" }, PASS_MARKS[1]));
  // under the curve, which only rises; beside the mark where it is too near the axis
  const isLow = y(view.relative) + 24 > height - bottom;
  chart.append(drawn("text", { x: Math.min(x(verify.rows) + (isLow ? 14 : 4), width - 110), y: y(view.relative) + (isLow ? 5 : 20) }, `verify ${verify.rows}: ${view.relative.toFixed(3)}x`));
  return chart;
}

export default widget(RooflinePage);
