const COIN_COLUMNS = ["draft", "token", "p (target)", "q (draft)", "kept", "residual", "output", "off by"];

function massBar(kind, value) {
  const track = element("span", "sd-track");
  const fill = element("span", `sd-fill sd-${kind}`);
  fill.style.width = `${100 * Math.min(1, Math.max(0, value))}%`;
  track.append(fill);
  return track;
}

function massCell(kind, number) {
  const cell = element("td", "sd-mass");
  cell.append(element("span", "sd-fraction", number.exact), massBar(kind, number.value));
  cell.title = String(number.value);
  return cell;
}

class CoinPage {
  constructor(model) {
    this.model = model;
    const settings = model.get("settings");
    const view = model.get("view");
    this.root = frame("coin", "Coin editor: laws p and q, the uniform u, and the law of the output");
    this.bug = chooser("code", view.bugs, view.bug, (bug) => send(model, { bug, rounds: 0 }));
    this.about = element("p", "sd-about sd-caption");
    this.problem = problemLine();
    this.inputs = { p: [], q: [] };
    // one name for all rows: arrow keys move inside a group
    this.group = `drafted-${Math.random()}`;
    this.table = this.buildTable(view, settings);
    this.verdict = element("p", "sd-verdict", "", { role: "status", "aria-live": "polite" });
    this.u = slider("u", { min: 0, max: 0.999, step: 0.001, value: view.u, show: (u) => u.toFixed(3), change: (u) => this.moveU(u) });
    this.v = slider("v", { min: 0, max: 0.999, step: 0.001, value: view.v, show: (v) => v.toFixed(3), change: (v) => send(model, { v }) });
    this.gauge = this.buildGauge();
    this.say = element("p", "sd-say", "", { role: "status", "aria-live": "polite" });
    this.strip = element("div", "sd-strip", undefined, { role: "img" });
    this.samples = element("div", "sd-samples");
    this.root.append(
      this.row(this.bug.box), this.about, this.table, this.problem, this.verdict,
      element("h4", "", "One draft"),
      this.row(this.u.box, element("span", "sd-caption", "or drag the needle")), this.gauge.box,
      this.row(this.v.box, this.strip), this.say,
      element("h4", "", "Many rounds"), this.buildButtons(), this.samples,
    );
    this.needing = [...this.root.children];
    this.stop = follow(model, () => this.draw(model.get("view")));
  }

  row(...nodes) {
    const row = element("div", "sd-row");
    row.append(...nodes);
    return row;
  }

  buildTable(view, settings) {
    const table = element("table", "sd-laws");
    const head = element("tr");
    for (const title of COIN_COLUMNS) head.append(element("th", "", title, { scope: "col" }));
    const thead = element("thead");
    thead.append(head);
    this.body = element("tbody");
    this.cells = view.rows.map((row, token) => this.buildRow(row, token, settings));
    table.append(thead, this.body);
    return this.row(table);
  }

  buildRow(row, token, settings) {
    const line = element("tr");
    const radio = element("input", "", undefined, { type: "radio", name: this.group, "aria-label": `draft ${row.name}` });
    radio.addEventListener("change", () => send(this.model, { drafted: token }));
    const pick = element("td");
    pick.append(radio);
    line.append(pick, element("th", "", row.name, { scope: "row" }));
    for (const law of ["p", "q"]) {
      const input = element("input", "sd-entry", undefined, { type: "text", "aria-label": `${law} of ${row.name}`, spellcheck: "false" });
      input.value = settings[law]?.[token] ?? row[law].exact;
      input.addEventListener("change", () => this.edit(law));
      this.inputs[law].push(input);
      const cell = element("td", "sd-mass");
      cell.append(input, massBar(law, 0), element("span", "sd-caption sd-scaled"));
      line.append(cell);
    }
    this.body.append(line);
    return { line, radio };
  }

  buildGauge() {
    const box = element("div", "sd-gauge", undefined, { role: "img" });
    const zone = element("div", "sd-zone");
    const needle = element("div", "sd-needle");
    box.append(zone, needle);
    const move = (event) => {
      const area = box.getBoundingClientRect();
      const u = Math.max(0, Math.min(0.999, Math.round((1000 * (event.clientX - area.left)) / area.width) / 1000));
      this.u.set(u);
      this.moveU(u);
    };
    box.addEventListener("pointerdown", (event) => {
      box.setPointerCapture(event.pointerId);
      move(event);
    });
    box.addEventListener("pointermove", (event) => {
      if (box.hasPointerCapture(event.pointerId)) move(event);
    });
    return { box, zone, needle };
  }

  buildButtons() {
    const more = (count) => () => send(this.model, { rounds: Math.min(4000, (this.model.get("settings").rounds ?? 0) + count) });
    return this.row(
      button("+100 rounds", "draw 100 rounds", more(100)),
      button("+1000", "draw 1000 rounds", more(1000)),
      button("start over", "forget the samples", () => send(this.model, { rounds: 0 })),
    );
  }

  edit(law) {
    send(this.model, { [law]: this.inputs[law].map((input) => input.value), rounds: 0 });
  }

  moveU(u) {
    this.gauge.needle.style.left = `${100 * u}%`;
    send(this.model, { u });
  }

  draw(view) {
    this.problem.show(view.problem);
    const { bug = view.bug, drafted = view.decision.drafted } = this.model.get("settings");
    this.bug.select.value = bug;
    this.about.textContent = view.about;
    view.rows.forEach((row, token) => this.drawRow(row, token, drafted));
    const sign = view.tv.value === 0 ? "✓" : "✗";
    this.verdict.textContent = `${sign} ${view.verdict} A draft is kept with probability ${view.acceptance.exact}.`;
    this.verdict.className = `sd-verdict sd-${view.tv.value === 0 ? "right" : "wrong"}`;
    this.drawDecision(view.decision, view);
    this.drawSamples(view.sampled, view);
  }

  drawRow(row, token, drafted) {
    const { line, radio } = this.cells[token];
    radio.checked = token === drafted;
    line.classList.toggle("sd-now", token === drafted);
    ["p", "q"].forEach((law, place) => {
      const cell = line.children[2 + place];
      cell.querySelector(".sd-fill").style.width = `${100 * row[law].value}%`;
      const typed = this.inputs[law][token].value.trim();
      cell.querySelector(".sd-scaled").textContent = typed === row[law].exact ? "" : `= ${row[law].exact}`;
    });
    while (line.children.length > 4) line.lastChild.remove();
    const gap = element("td", row.gap.value === 0 ? "" : "sd-off", row.gap.value === 0 ? "0" : `${row.gap.value > 0 ? "+" : ""}${row.gap.exact}`);
    line.append(massCell("kept", row.kept), massCell("residual", row.residual), massCell("law", row.law), gap);
  }

  drawDecision(decision, view) {
    const ratio = decision.ratio;
    this.gauge.box.classList.toggle("sd-unused", ratio === null);
    this.gauge.zone.style.width = `${100 * (ratio?.value ?? (decision.accepted ? 1 : 0))}%`;
    this.gauge.needle.style.left = `${100 * this.u.input.value}%`;
    this.gauge.needle.classList.toggle("sd-miss", !decision.accepted);
    this.gauge.box.setAttribute("aria-label", ratio ? `kept while u is below ${ratio.exact}; u is ${view.u}` : "this code does not ask for u");
    const mark = decision.is_possible ? (decision.accepted ? "✓" : "↺") : "–";
    this.say.textContent = `${mark} ${decision.say}`;
    this.strip.replaceChildren();
    decision.masses.forEach((mass, token) => {
      if (mass === 0) return;
      const part = element("span", `sd-part sd-part-${token % 3}${token === decision.token ? " sd-now" : ""}`, view.rows[token].name);
      part.style.width = `${100 * mass}%`;
      part.title = `${view.rows[token].name}: ${mass}`;
      this.strip.append(part);
    });
    const needle = element("span", "sd-needle");
    needle.style.left = `${100 * view.v}%`;
    this.strip.append(needle);
    this.strip.setAttribute("aria-label", `the next token is drawn at v = ${view.v}: ${view.rows[decision.token].name}`);
  }

  drawSamples(found, view) {
    this.samples.replaceChildren();
    if (!found.n) {
      this.samples.append(element("p", "sd-caption", "Draw some rounds: the same code, with the engine's random numbers."));
      return;
    }
    const p = found.p_value;
    const tested = p === null ? "too few for a chi-square test" : `p-value of a chi-square test against p: ${shortNumber(p, 2)}`;
    const counts = view.rows.map((row, token) => `${row.name} ${found.counts[token]}`).join(", ");
    this.samples.append(
      element("p", "sd-counts", `${found.n} rounds: ${counts}. Frequencies at TV ${found.tv.toFixed(4)} from p; ${tested}.`),
      this.row(driftChart("distance from p (TV)", found.history.map(([n, tv]) => [n, tv]), view.tv.value, "exact TV"),
        driftChart("p-value (log scale)", found.history.filter((entry) => entry[2] !== null).map(([n, , value]) => [n, Math.max(-10, Math.log10(Math.max(value, 1e-300)))]), -3, "1 in 1000", true)),
      element("p", "sd-caption", "A p-value is good for one look at a number of rounds fixed before. Looking until it is small is no test."),
    );
  }
}

// A line over the number of rounds, with one dashed level to compare with.
function driftChart(title, points, level, levelName, isLog = false) {
  const [width, height, left, bottom] = [320, 160, 52, 22];
  const chart = drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": title });
  if (!points.length) return chart;
  const last = Math.max(...points.map(([n]) => n));
  const top = isLog ? 0 : Math.max(0.05, level, ...points.map(([, value]) => value)) * 1.15;
  const low = isLog ? Math.min(-4, ...points.map(([, value]) => value)) : 0;
  const x = (n) => left + ((width - left - 10) * n) / last;
  const y = (value) => 28 + (height - 28 - bottom) * (1 - (value - low) / (top - low));
  const name = (value) => (isLog ? (value <= -10 ? "≤1e-10" : `1e${Math.round(value)}`) : value.toFixed(2));
  chart.append(drawn("text", { x: 2, y: 12 }, title));
  for (const value of [low, top]) chart.append(drawn("text", { x: left - 4, y: y(value) + 4, "text-anchor": "end", class: "sd-faint" }, name(value)));
  chart.append(drawn("path", { d: `M${left},${y(top)}V${y(low)}H${width - 10}`, class: "sd-axis" }));
  chart.append(drawn("path", { d: `M${left},${y(level)}H${width - 10}`, class: "sd-level" }));
  chart.append(drawn("path", { d: points.map(([n, value], index) => `${index ? "L" : "M"}${x(n)},${y(value)}`).join(""), class: "sd-trend" }));
  const [n, value] = points[points.length - 1];
  // the name of the level keeps out of the way of the line's end: below the level, or at its other end
  const [isNear, hasRoom] = [y(value) < y(level) + 6 && y(level) - y(value) < 24, y(level) + 16 < y(low)];
  const place = isNear && !hasRoom ? { x: left + 4, "text-anchor": "start" } : { x: width - 10, "text-anchor": "end" };
  chart.append(drawn("text", { ...place, y: y(level) + (isNear && hasRoom ? 14 : -4), class: "sd-faint" }, levelName));
  chart.append(drawn("circle", { cx: x(n), cy: y(value), r: 4, class: "sd-end" }));
  chart.append(drawn("text", { x: width - 10, y: height - 6, "text-anchor": "end", class: "sd-faint" }, `${last} rounds`));
  return chart;
}

export default widget(CoinPage);
