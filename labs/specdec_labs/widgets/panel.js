// What every panel shares: drawings, controls, and the way settings travel. Text enters through textContent only.

function drawn(tag, attributes = {}, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

export function shortNumber(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "–∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  if (Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3) return value.toExponential(1);
  return String(Number(value.toPrecision(digits)));
}

function send(model, changes) {
  model.set("settings", { ...model.get("settings"), ...changes });
  model.save_changes();
}

// The settings as chosen last. The view answers earlier ones while the kernel works, and would take controls back.
function latest(model) {
  const view = model.get("view");
  return view.problem ? view.settings : { ...view.settings, ...model.get("settings") };
}

function frame(name, label) {
  return element("div", `sd-panel sd-${name}`, undefined, { role: "group", "aria-label": label });
}

function labelled(text, control) {
  const box = element("label", "sd-control");
  box.append(element("span", "sd-caption", text), control);
  return box;
}

function slider(label, { min, max, step, value, show = shortNumber, change }) {
  const input = element("input", "", undefined, { type: "range", min, max, step, "aria-label": label });
  const shown = element("output", "sd-value");
  const set = (next) => {
    input.value = next;
    shown.textContent = show(Number(next));
    input.setAttribute("aria-valuetext", shown.textContent);
  };
  input.addEventListener("input", () => {
    set(input.value);
    change(Number(input.value));
  });
  set(value);
  const box = labelled(label, input);
  box.append(shown);
  return { box, input, set };
}

function chooser(label, options, value, change) {
  const select = element("select", "", undefined, { "aria-label": label });
  for (const [key, title] of options) select.append(element("option", "", title, { value: key }));
  select.value = value;
  select.addEventListener("change", () => change(select.value));
  return { box: labelled(label, select), select };
}

function button(text, label, action) {
  const node = element("button", "sd-button", text, { type: "button", "aria-label": label, title: label });
  node.addEventListener("click", action);
  return node;
}

function download(name, content, type) {
  const url = typeof content === "string" && content.startsWith("data:") ? content : URL.createObjectURL(new Blob([content], { type }));
  const link = element("a", "", "", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}

// Calls `draw` now and whenever the view changes; gives what stops it.
function follow(model, draw) {
  model.on("change:view", draw);
  draw();
  return () => model.off("change:view", draw);
}

function problemLine() {
  const line = element("p", "sd-problem", "", { role: "alert" });
  line.show = (text) => {
    line.textContent = text ? `⚠ ${text}` : "";
    line.hidden = !text;
  };
  line.show("");
  return line;
}
