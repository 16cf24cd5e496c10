// What every live view shares with the page around it: its keys, its static twin, and a kernel that may be gone.

const NO_ANSWER_MS = 6000;

function element(tag, className, text, attributes = {}) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

// JupyterLab looks for its shortcuts before the page sees a key, from the focused element upwards, and stops at this
// attribute: it must stand on that very element. The notebook listens too, and takes the focus away.
function keepKeys(root) {
  root.addEventListener("focusin", (event) => event.target.setAttribute("data-lm-suppress-shortcuts", "true"));
  root.addEventListener("keydown", (event) => event.stopPropagation());
}

// Greys out what needs the kernel when that restarts, and says so; says, too, when it has not answered for a while.
function watchKernel(model, root, needing) {
  const notice = element("p", "sd-problem sd-notice", "", { role: "alert" });
  let timer;
  const say = (text) => {
    clearTimeout(timer);
    notice.textContent = text && `⚠ ${text}`;
    notice.hidden = !text;
  };
  const gone = () => {
    say("Kernel gone: run the cell again.");
    for (const part of needing) {
      part.inert = true;
      part.classList.add("sd-gone");
    }
  };
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(() => say("No answer from the kernel: it is busy or gone. If it is gone, run the cell again."), NO_ANSWER_MS);
  };
  say("");
  root.prepend(notice);
  // the first event comes when a restart cuts the line between page and kernel, which nothing mends
  const events = { comm_live_update: gone, "change:settings": wait, "msg:custom": () => say("") };
  for (const [name, listener] of Object.entries(events)) model.on(name, listener);
  return () => {
    clearTimeout(timer);
    for (const [name, listener] of Object.entries(events)) model.off(name, listener);
  };
}

// The widget of a page class: `root` is shown in place of the static twin until `stop`; `needing` are its parts that
// are of no use without a kernel.
function widget(Page) {
  return {
    render({ model, el }) {
      const page = new Page(model);
      const twin = `#${model.get("twin_id") || "sd-no-twin"}`;
      const hiding = element("style", "", `.jp-OutputArea-child:has(${twin}), ${twin} { display: none; }`);
      document.head.append(hiding);
      el.append(page.root);
      keepKeys(page.root);
      const stopWatching = page.needing ? watchKernel(model, page.root, page.needing) : () => {};
      return () => {
        stopWatching();
        hiding.remove();
        page.stop();
      };
    },
  };
}
