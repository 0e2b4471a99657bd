// Keyboard shortcuts: on lists, on the open item, and between pages. `?` lists them.

const SHORTCUTS = [
  ["Everywhere", [
    ["Ctrl K", "search, or go to a page"],
    ["/", "go to the search field of the page"],
    ["g h", "go to Home"],
    ["g i", "go to Inbox"],
    ["g t", "go to Tasks"],
    ["g a", "go to Activity"],
    ["?", "show these shortcuts"],
  ]],
  ["Lists", [
    ["j k", "move down and up"],
    ["Enter", "open"],
  ]],
  ["Tasks", [
    ["c", "create a task"],
    ["s", "change the state"],
    ["a", "assign"],
    ["p", "set the priority"],
    ["x", "select, to change several at once"],
  ]],
  ["Inbox", [
    ["1 … 9", "choose an answer"],
    ["e", "done"],
    ["r", "reply or answer in your own words"],
    ["m", "snooze for a day"],
  ]],
];
const PAGES = { h: "/home", i: "/inbox", t: "/tasks", a: "/activity" };
const SEQUENCE_MS = 1500; // between g and the letter of a page

const getItems = () => [...document.querySelectorAll("[data-item]")];
let selected = -1;
let goPressedAt = -Infinity;

function select(index) {
  const items = getItems();
  if (!items.length) return;
  selected = Math.max(0, Math.min(index, items.length - 1));
  items.forEach((item, at) => item.classList.toggle("selected", at === selected));
  const link = items[selected].querySelector("[data-open]") ?? items[selected];
  link.focus({ preventScroll: true });
  items[selected].scrollIntoView({ block: "nearest" });
}

// The focus may have moved by Tab or by a click since the last shortcut; at first it is on the item that is open.
function currentIndex() {
  const items = getItems();
  const focused = document.activeElement?.closest("[data-item]");
  if (focused) return items.indexOf(focused);
  return selected >= 0 ? selected : items.findIndex((item) => item.getAttribute("aria-current") === "true");
}

// Mark the selected item again: live.js has replaced the list.
export function restoreSelection() {
  const items = getItems();
  if (selected < 0 || !items.length) return;
  selected = Math.min(currentIndex(), items.length - 1);
  items[selected].classList.add("selected");
}

// A button of the selected item, or of the item that is open beside the list.
function findButton(selector) {
  const item = getItems()[currentIndex()];
  return item?.querySelector(`${selector} button`) ?? document.querySelector(`.pane-item ${selector} button`);
}

function showHelp() {
  const dialog = document.createElement("dialog");
  dialog.className = "help";
  dialog.setAttribute("aria-labelledby", "help-title");
  const title = document.createElement("h2");
  title.id = "help-title";
  title.textContent = "Keyboard shortcuts";
  dialog.append(title);
  for (const [name, shortcuts] of SHORTCUTS) {
    const heading = document.createElement("h3");
    heading.textContent = name;
    const rows = document.createElement("dl");
    for (const [keys, effect] of shortcuts) {
      const term = document.createElement("dt");
      for (const key of keys.split(" ")) {
        const element = document.createElement("kbd");
        element.textContent = key;
        term.append(element, " ");
      }
      const description = document.createElement("dd");
      description.textContent = effect;
      rows.append(term, description);
    }
    dialog.append(heading, rows);
  }
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", () => dialog.close());
  document.body.append(dialog);
  dialog.showModal();
}

function press(key) {
  if (key === "?") showHelp();
  else if (key === "j") select(currentIndex() + 1);
  else if (key === "k") select(currentIndex() - 1);
  else if (key === "/") document.querySelector("main [type=search]")?.focus();
  else if (key === "g") goPressedAt = performance.now();
  else if (key === "e" || key === "m") findButton(`[data-key="${key}"]`)?.click();
  else if (key === "r") document.querySelector(".pane-item [data-reply], .pane-item .answer-words input")?.focus();
  else if (/^[1-9]$/.test(key)) findButton(`[data-digit="${key}"]`)?.click();
  else return false;
  return true;
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, dialog")) return;
  const page = performance.now() - goPressedAt < SEQUENCE_MS ? PAGES[event.key] : undefined;
  goPressedAt = -Infinity;
  if (page) location.assign(page);
  else if (!press(event.key)) return;
  event.preventDefault();
});
