// The text of a generation: its tokens as chips by origin, the folded prompt, the strip, the legend. theatre.js follows
// in the same module. Token text enters the page only through textContent: it may hold anything, markup included.

const MARK = { prefill: "·", plain: "·", accepted: "✓", recovered: "↺", bonus: "★", refused: "✗", dropped: "–", waiting: "?" };
const LEGEND = [
  ["accepted", "accepted draft"],
  ["recovered", "recovered: redrawn after a refusal"],
  ["bonus", "bonus: all drafts kept"],
  ["plain", "plain or prefill: no draft"],
  ["refused", "refused draft"],
  ["dropped", "dropped, never judged"],
];
const PROMPT_TAIL = 12;

function button(symbol, label, keys, action) {
  const node = element("button", "sd-button", symbol);
  node.type = "button";
  node.setAttribute("aria-label", label);
  node.title = `${label} (${keys})`;
  node.addEventListener("click", action);
  return node;
}

function legend() {
  const list = element("ul", "sd-legend");
  list.setAttribute("aria-label", "Legend");
  for (const [origin, meaning] of LEGEND) {
    const item = element("li");
    item.append(element("span", `sd-mark sd-${origin}`, MARK[origin]), ` ${meaning}`);
    list.append(item);
  }
  return list;
}

function chip(text, origin, title) {
  const node = element("span", `sd-token sd-${origin}`);
  node.append(element("span", "sd-text", text));
  if (MARK[origin]) node.append(element("span", "sd-mark", MARK[origin]));
  node.title = title;
  return node;
}

// The prompt reads as text, with its spaces; a long one (a chat format has dozens of tokens) shows its end only.
function promptText(tokens, name) {
  const prompt = element("span", "sd-prompt");
  const folded = tokens.slice(0, tokens.length > 2 * PROMPT_TAIL ? -PROMPT_TAIL : 0);
  const chips = tokens.map((token) => chip(name(token).replaceAll("␣", " "), "prompt", `prompt, id ${token}`));
  if (folded.length) {
    const fold = button("", "", "Enter", () => set(fold.getAttribute("aria-expanded") !== "true"));
    fold.classList.add("sd-fold");
    const set = (isOpen) => {
      fold.setAttribute("aria-expanded", isOpen);
      fold.textContent = isOpen ? "fold the prompt" : `… ${folded.length} tokens of the prompt`;
      fold.setAttribute("aria-label", isOpen ? fold.textContent : `show ${folded.length} more tokens of the prompt`);
      chips.slice(0, folded.length).forEach((node) => (node.hidden = !isOpen));
    };
    set(false);
    prompt.append(fold);
  }
  prompt.append(...chips);
  return prompt;
}

// Every generated token as a cell that shows where it came from; a click goes to the step that added it.
function originStrip(view, go) {
  const strip = element("div", "sd-origins");
  strip.setAttribute("role", "img");
  const counts = LEGEND.map(([origin, meaning]) => [view.tokens.filter(([, from]) => from === origin).length, meaning]);
  strip.setAttribute("aria-label", `All ${view.tokens.length} tokens by origin: ${counts.filter(([count]) => count).map(([count, meaning]) => `${count} ${meaning}`).join("; ")}`);
  const cells = view.tokens.map(([token, origin, round], index) => {
    const cell = element("span", `sd-token sd-${origin}`);
    cell.append(element("span", "sd-mark", MARK[origin]));
    if (round !== view.tokens[index - 1]?.[2] && index) cell.classList.add("sd-starts");
    cell.title = `${view.texts[token] ?? `#${token}`}: ${origin}${round ? `, round ${round}` : ""}`;
    cell.addEventListener("click", () => go(view.steps.findIndex((step) => step.shown > index)));
    strip.append(cell);
    return cell;
  });
  return { strip, cells };
}

function storyText(view, name) {
  const box = element("div", "sd-story");
  box.setAttribute("aria-label", "Text so far");
  box.tabIndex = 0;
  box.append(promptText(view.prompt, name));
  const chips = view.tokens.map(([token, origin, round]) => {
    const node = chip(name(token), origin, `${origin}${round ? `, round ${round}` : ""}, id ${token}`);
    box.append(node);
    return node;
  });
  return { box, chips };
}
