// Accept/reject theatre: shows one step of a recorded trace at a time. Token text enters the page only
// through textContent: it may hold anything, markup included.

const SERIES = { p: "target p", q: "draft q", residual: "residual" };
const BEAT_MS = 1100;

export function shortNumber(value) {
  if (value === 0 || value === 1) return String(value);
  if (value >= 0.1) return value.toFixed(4);
  return value >= 1e-4 ? value.toPrecision(3) : value.toExponential(1);
}

// The step a whole-round jump lands on: the start of the next round, or of this one, or of the one before.
export function roundJump(steps, position, direction) {
  const starts = [0];
  steps.forEach((step, index) => {
    if (step.round !== steps[index - 1]?.round && index > 0) starts.push(index);
  });
  if (direction > 0) return starts.find((start) => start > position) ?? steps.length - 1;
  return starts.filter((start) => start < position).pop() ?? 0;
}

// What a key does, as a new position or "play"; null leaves the key to the page.
export function keyTarget(event, steps, position) {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  const last = steps.length - 1;
  switch (event.key) {
    case "ArrowRight": return event.shiftKey ? roundJump(steps, position, 1) : Math.min(position + 1, last);
    case "ArrowLeft": return event.shiftKey ? roundJump(steps, position, -1) : Math.max(position - 1, 0);
    case "PageDown": return roundJump(steps, position, 1);
    case "PageUp": return roundJump(steps, position, -1);
    case "Home": return 0;
    case "End": return last;
    case " ": return event.target?.tagName === "BUTTON" ? null : "play";
    default: return null;
  }
}

function amount(value, bound) {
  if (value !== null) return shortNumber(value);
  return bound === null ? "not recorded" : `≤ ${shortNumber(bound)}`;
}

function bar(series, value, bound) {
  const cell = element("td");
  const line = element("span", "sd-bar");
  const track = element("span", "sd-track");
  const fill = element("span", `sd-fill sd-${series}`);
  fill.style.width = `${100 * (value ?? 0)}%`;
  track.append(fill);
  line.append(track, element("span", "sd-number", amount(value, bound)));
  cell.append(line);
  cell.title = value === null ? `${SERIES[series]}: ${amount(value, bound)}` : `${SERIES[series]} = ${value}`;
  return cell;
}

function chart(bars, name, mark) {
  const table = element("table", "sd-chart");
  const head = element("tr");
  head.append(element("th", "", "token"));
  for (const series of bars.series) {
    const cell = element("th");
    cell.append(element("span", `sd-key sd-${series}`), ` ${SERIES[series]}`);
    head.append(cell);
  }
  table.append(head);
  for (const [token, ...values] of bars.rows) {
    const marked = token === bars.marked;
    const row = element("tr", marked ? "sd-marked" : "");
    const label = element("th", "sd-label");
    label.scope = "row";
    label.append(element("span", "sd-text", name(token)));
    if (marked) label.append(element("span", `sd-mark sd-${mark}`, MARK[mark]));
    label.title = `id ${token}`;
    row.append(label, ...values.map((value, index) => bar(bars.series[index], value, bars.bound[index])));
    table.append(row);
  }
  if (bars.rest.some((value) => value)) {
    const row = element("tr", "sd-rest");
    row.append(element("th", "sd-label", "all others"));
    row.append(...bars.rest.map((value, index) => bar(bars.series[index], value, null)));
    table.append(row);
  }
  return table;
}

function coinGauge(coin, isTree) {
  const box = element("div", "sd-coin");
  const ratio = coin.ratio;
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", `u = ${coin.u}, accepted below ${ratio}`);
  const track = element("div", "sd-gauge");
  const zone = element("div", "sd-zone");
  zone.style.width = `${100 * ratio}%`;
  const needle = element("div", `sd-needle${coin.accepted ? "" : " sd-miss"}`);
  needle.style.left = `${100 * coin.u}%`;
  needle.title = `u = ${coin.u}`;
  zone.title = `min(1, p/q) = ${ratio}`;
  track.append(zone, needle);
  const scale = element("div", "sd-scale");
  scale.append(element("span", "", "0"), element("span", "", "1"));
  const caption = element("div", "sd-caption");
  caption.append(
    element("span", "sd-zone-key"), ` accept when u < ${isTree ? "" : "min(1, p/q) = "}${shortNumber(ratio)}`,
    element("span", "sd-needle-key"), ` u = ${shortNumber(coin.u)}`,
  );
  box.append(track, scale, caption);
  return box;
}

function draftStrip(step, name) {
  const strip = element("div", "sd-drafts");
  if (!step.drafts.length) return strip;
  strip.append(element("span", "sd-caption", "drafts"));
  const judging = step.kind === "judge" ? Number(step.draft) : -1;
  step.drafts.forEach(([token, state], index) => {
    const node = chip(name(token), state, `draft ${index + 1}: ${state}, id ${token}`);
    if (index === judging) node.classList.add("sd-now");
    if (step.tree) placeInTree(node, step.tree[index]);
    strip.append(node);
  });
  strip.classList.toggle("sd-tree", step.tree !== null);
  return strip;
}

// Columns are depths, rows are lanes: a first child stands right of its parent, later ones branch off below.
function placeInTree(node, [depth, lane, isFirst]) {
  node.style.gridColumn = depth + 1;
  node.style.gridRow = lane + 1;
  node.prepend(element("span", "sd-branch", isFirst ? "─" : "└"));
}

// Outside the rounds there is nothing to judge: the stage shows the whole text by origin.
function overview(view, name) {
  const box = element("div", "sd-stage");
  if (!view.tokens.length) return box;
  const { rounds, drafted, accepted } = view.counters;
  box.append(element("p", "sd-caption", `The whole text, by where each token came from: ${rounds} rounds, ${accepted} of ${drafted} drafts accepted.`));
  const text = element("p", "sd-whole");
  view.tokens.forEach(([token, origin, round]) => text.append(chip(name(token), origin, `${origin}${round ? `, round ${round}` : ""}, id ${token}`)));
  box.append(text);
  return box;
}

function stage(step, name) {
  const box = element("div", "sd-stage");
  box.append(draftStrip(step, name));
  if (step.coin && step.coin.ratio !== null) box.append(coinGauge(step.coin, step.tree !== null));
  const state = step.kind === "judge" ? step.drafts[step.draft][1] : step.kind;
  if (step.bars) box.append(chart(step.bars, name, state));
  else if (step.kind === "judge") box.append(element("div"));
  else if (step.tree && step.kind === "recovered") {
    box.append(element("p", "sd-caption", "The law left after several refusals is not recorded."));
  } else if (step.kind !== "round" && step.kind !== "stopped") {
    box.append(element("p", "sd-caption", "The probabilities of this slot were not recorded."));
  }
  return box;
}

const COUNTERS = [
  ["rounds", "rounds"],
  ["drafted", "drafted"],
  ["accepted", "accepted"],
  ["mean_acceptance_length", "mean acceptance length"],
];

function counters(values) {
  const list = element("div", "sd-counters");
  list.title = "Finished rounds only; the prefill token is in none of them.";
  for (const [key, label] of COUNTERS) {
    const pair = element("span", "", `${label} `);
    const value = values[key];
    const text = value === null ? "–" : key === "mean_acceptance_length" ? value.toFixed(2) : String(value);
    pair.append(element("b", "", text));
    list.append(pair);
  }
  return list;
}

// One view of the model: the page, the timer that plays it, and the step on show.
class Player {
  constructor(model) {
    this.model = model;
    this.view = model.get("view");
    this.steps = this.view.steps;
    this.last = this.steps.length - 1;
    this.timer = null;
    this.name = (token) => this.view.texts[token] ?? `#${token}`;
    this.story = storyText(this.view, this.name);
    this.origins = originStrip(this.view, (position) => this.move(position));
    this.label = element("strong", "sd-heading");
    this.say = element("p", "sd-say");
    this.scene = element("div");
    this.totals = element("div");
    this.root = this.frame();
    this.show = this.show.bind(this);
    this.resized = new ResizeObserver(() => this.follow());
    this.resized.observe(this.story.box);
    model.on("change:position", this.show);
    this.show();
  }

  frame() {
    const root = element("div", "sd-theatre");
    root.tabIndex = 0;
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", "Accept/reject theatre. Arrows step, Shift and arrows jump a round, Space plays.");
    root.addEventListener("keydown", (event) => this.key(event));
    const live = element("div", "sd-live");
    live.setAttribute("role", "status");
    live.setAttribute("aria-live", "polite");
    live.append(this.label, this.say);
    root.append(legend(), this.story.box, this.origins.strip, this.controls(), live, this.scene, this.totals);
    return root;
  }

  controls() {
    const { steps } = this;
    this.play = button("Play", "Play", "Space", () => this.toggle());
    this.scrub = element("input", "sd-scrub");
    Object.assign(this.scrub, { type: "range", min: 0, max: this.last, step: 1 });
    this.scrub.setAttribute("aria-label", "Step");
    this.scrub.addEventListener("input", () => this.move(Number(this.scrub.value)));
    this.place = element("span", "sd-place");
    const row = element("div", "sd-controls");
    row.append(
      button("«", "Previous round", "Shift+Left", () => this.move(roundJump(steps, this.position, -1))),
      button("‹", "Previous step", "Left", () => this.move(this.position - 1)),
      this.play,
      button("›", "Next step", "Right", () => this.move(this.position + 1)),
      button("»", "Next round", "Shift+Right", () => this.move(roundJump(steps, this.position, 1))),
      this.scrub,
      this.place,
    );
    return row;
  }

  get position() {
    return Math.max(0, Math.min(this.last, this.model.get("position")));
  }

  goTo(position) {
    this.model.set("position", Math.max(0, Math.min(this.last, position)));
    this.model.save_changes();
  }

  move(position) {
    this.pause();
    this.goTo(position);
  }

  toggle() {
    if (this.timer !== null) {
      this.pause();
      return;
    }
    if (this.position >= this.last) this.goTo(0);
    this.setPlayLabel("Pause");
    this.timer = setInterval(() => {
      this.goTo(this.position + 1);
      if (this.position >= this.last) this.pause();
    }, BEAT_MS);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.setPlayLabel("Play");
  }

  setPlayLabel(text) {
    this.play.textContent = text;
    this.play.setAttribute("aria-label", text);
  }

  key(event) {
    const target = keyTarget(event, this.steps, this.position);
    if (target === null) return;
    event.preventDefault();
    if (target === "play") this.toggle();
    else this.move(target);
  }

  show() {
    const { position, steps } = this;
    const step = steps[position];
    this.label.textContent = step.label;
    this.say.textContent = step.say;
    const before = position > 0 ? steps[position - 1].shown : 0;
    this.story.chips.forEach((node, index) => {
      // later tokens keep their room: a box that grew with the text would push the controls down
      node.classList.toggle("sd-later", index >= step.shown);
      node.classList.toggle("sd-new", index >= before && index < step.shown);
      this.origins.cells[index].classList.toggle("sd-ahead", index >= step.shown);
    });
    this.follow();
    this.scene.replaceChildren(step.round === null ? overview(this.view, this.name) : stage(step, this.name));
    this.totals.replaceChildren(counters(step.counters));
    this.place.textContent = `step ${position + 1} of ${this.last + 1}`;
    this.scrub.value = position;
    this.scrub.setAttribute("aria-valuetext", `${this.place.textContent}: ${step.label}`);
  }

  // Scrolls the text so that its newest token is in sight.
  follow() {
    const newest = this.story.chips[this.steps[this.position].shown - 1];
    const { box } = this.story;
    if (newest) box.scrollTop = newest.offsetTop + newest.offsetHeight - box.clientHeight;
  }

  stop() {
    clearInterval(this.timer);
    this.resized.disconnect();
    this.model.off("change:position", this.show);
  }
}

export default widget(Player);
