// The command palette: Ctrl-K or Cmd-K, then type. It finds pages here, and everything else on the server.

const DELAY_MS = 120; // between the last key and the request
const KINDS = {
  task: "Task",
  epic: "Epic",
  agent: "Agent",
  run: "Run",
  crew: "Crew",
  mail: "Mail",
  decision: "Decision",
};

const pages = [...document.querySelectorAll(".sidebar :is(nav, .menu-items) a[href]")].map((link) => ({
  label: "Page",
  title: link.querySelector("span:not(.badge)")?.textContent ?? link.textContent.trim(),
  detail: "",
  href: link.getAttribute("href"),
}));

let dialog;
let input;
let list;
let results = [];
let selected = 0;
let timer;
let request; // aborts the search for what was typed before

function create() {
  dialog = document.createElement("dialog");
  dialog.className = "palette";
  dialog.setAttribute("aria-label", "Search");
  input = document.createElement("input");
  input.type = "search";
  input.placeholder = "Search tasks, mail, agents, runs, decisions, pages";
  for (const [name, value] of Object.entries({
    role: "combobox",
    "aria-label": "Search",
    "aria-expanded": "true",
    "aria-controls": "palette-results",
    "aria-autocomplete": "list",
    autocomplete: "off",
    maxlength: "200",
  })) input.setAttribute(name, value);
  list = document.createElement("ul");
  list.id = "palette-results";
  list.className = "plain palette-results";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Results");
  dialog.append(input, list);
  document.body.append(dialog);
  input.addEventListener("input", scheduleSearch);
  input.addEventListener("keydown", handleKey);
  list.addEventListener("click", (event) => choose([...list.children].indexOf(event.target.closest("li"))));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}

export function openPalette() {
  if (!dialog) create();
  if (dialog.open) return;
  input.value = "";
  show(pages);
  dialog.showModal();
  input.focus();
}

function findPages(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return pages.filter((page) => words.every((word) => page.title.toLowerCase().includes(word)));
}

function scheduleSearch() {
  clearTimeout(timer);
  request?.abort();
  const query = input.value.trim();
  if (!query) return show(pages);
  show(findPages(query));
  timer = setTimeout(() => search(query), DELAY_MS);
  return undefined;
}

async function search(query) {
  request = new AbortController();
  try {
    const response = await fetch(`/find?q=${encodeURIComponent(query)}`, { signal: request.signal });
    if (!response.ok) return;
    const { things } = await response.json();
    const everything = {
      label: "Knowledge",
      title: `Search everything for “${query}”`,
      detail: "",
      href: `/knowledge?q=${encodeURIComponent(query)}`,
    };
    show([
      ...findPages(query),
      ...things.map(({ kind, id, title, detail, href }) => ({
        label: KINDS[kind],
        title,
        detail: id === title || kind === "decision" ? detail : `${id} · ${detail}`,
        href,
      })),
      everything,
    ]);
  } catch (error) {
    if (error.name !== "AbortError") show([]);
  }
}

// Text is only ever set as text: agents wrote it.
function show(found) {
  results = found;
  selected = 0;
  list.replaceChildren(
    ...found.map(({ label, title, detail }, at) => {
      const item = document.createElement("li");
      item.id = `palette-${at}`;
      item.setAttribute("role", "option");
      for (const [name, text] of [["label", label], ["title", title], ["detail", detail]]) {
        const part = document.createElement("span");
        part.className = `palette-${name}`;
        part.textContent = text;
        item.append(part);
      }
      return item;
    }),
  );
  mark();
}

function mark() {
  [...list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === selected)));
  const item = list.children[selected];
  input.setAttribute("aria-activedescendant", item?.id ?? "");
  item?.scrollIntoView({ block: "nearest" });
}

function handleKey(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    selected = Math.max(0, Math.min(selected + step, results.length - 1));
    mark();
  } else if (event.key === "Enter") choose(selected);
  // The browser would only empty a search field that has text.
  else if (event.key === "Escape") dialog.close();
  else return;
  event.preventDefault();
}

function choose(at) {
  if (results[at]) location.assign(results[at].href);
}

addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  event.preventDefault();
  openPalette();
});

// Without scripts the link leads to the search page.
document.querySelector("[data-palette]")?.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  document.getElementById("sidebar")?.hidePopover?.();
  openPalette();
});
