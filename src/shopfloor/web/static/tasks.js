// Tasks: pick a state, an assignee or a priority, create tasks, filter while the visitor types, and change several at
// once.
//
// Keys on the selected task: s state, a assignee, p priority, x select. c creates a task.

import { hasEdits, sendForm } from "./forms.js";
import { showToast } from "./toast.js";

const PRIORITIES = ["critical", "high", "normal", "low", "backlog"];
// Enter on the first option must not end a task that can still be done.
const LAST_STATES = ["FAILED", "CANCELLED"];
const words = (state) => state.toLowerCase().replaceAll("_", " ");
const capitalize = (text) => text[0].toUpperCase() + text.slice(1);

// What each property offers for a task, and how it is changed.
const PROPERTIES = {
  state: {
    label: "Move to",
    options: (task) => {
      const states = task.dataset.moves.split(" ").filter(Boolean);
      if ("canComplete" in task.dataset && !states.includes("COMPLETED")) states.push("COMPLETED");
      states.sort((one, other) => LAST_STATES.indexOf(one) - LAST_STATES.indexOf(other));
      return states.map((state) => ({ value: state, text: capitalize(words(state)) }));
    },
    send: (task, value) => moveTask(task, value),
    done: (task, text) => `${task.dataset.id}: ${text.toLowerCase()}`,
  },
  assignee: {
    label: "Assign to",
    options: (task) =>
      "canAssign" in task.dataset
        ? (task.closest("[data-assignees]")?.dataset.assignees ?? "").split(" ").filter(Boolean)
          .map((name) => ({ value: name, text: name }))
        : [],
    send: (task, value) => sendForm("/act/task_assign", { number: task.dataset.task, agentId: value }),
    done: (task, text) => `Assigned ${task.dataset.id} to ${text}`,
  },
  priority: {
    label: "Priority",
    options: () => PRIORITIES.map((name, value) => ({ value, text: capitalize(name) })),
    send: (task, value) => sendForm("/act/task_edit", { number: task.dataset.task, priority: value }),
    done: (task, text) => `${task.dataset.id}: ${text.toLowerCase()} priority`,
  },
};

// A person may complete a task from any open state, which the table of moves does not have.
export function moveTask(task, state) {
  const board = task.closest("[data-move]")?.dataset ?? { move: "/act/task_move", board: "epic", name: "" };
  const isMove = task.dataset.moves.split(" ").includes(state);
  if (!isMove && state === "COMPLETED") return sendForm("/act/task_complete", { number: task.dataset.task });
  return sendForm(board.move, { number: task.dataset.task, kind: board.board, board: board.name, state });
}

// The picker: a field that narrows a list of options, with the keyboard or the pointer.
let picker;
let latest; // the number of the task that was changed last, until another one is chosen

function closePicker() {
  const { element, opener } = picker ?? {};
  picker = undefined;
  element?.remove();
  if (opener?.isConnected) opener.focus({ preventScroll: true });
}

function openPicker(task, name) {
  const property = PROPERTIES[name];
  const options = property.options(task);
  const opener = task.querySelector(`[data-pick="${name}"]`) ?? task;
  if (!options.length) return showToast(`${task.dataset.id} offers nothing here`);
  closePicker();
  latest = task.dataset.task;
  const element = document.createElement("div");
  element.className = "picker";
  element.setAttribute("role", "dialog");
  element.setAttribute("aria-label", `${property.label}: ${task.dataset.id}`);
  const field = document.createElement("input");
  field.placeholder = `${property.label}…`;
  field.setAttribute("role", "combobox");
  field.setAttribute("aria-label", property.label);
  field.setAttribute("aria-expanded", "true");
  field.setAttribute("aria-controls", "picker-options");
  field.setAttribute("autocomplete", "off");
  const list = document.createElement("div");
  list.id = "picker-options";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", property.label);
  element.append(field, list);
  document.body.append(element);
  picker = { element, opener };
  let shown = options;
  let at = 0;

  const draw = () => {
    list.replaceChildren(
      ...shown.map((option, index) => {
        const item = document.createElement("div");
        item.id = `picker-option-${index}`;
        item.setAttribute("role", "option");
        item.setAttribute("aria-selected", String(index === at));
        item.textContent = option.text;
        item.addEventListener("click", () => choose(option));
        return item;
      }),
    );
    field.setAttribute("aria-activedescendant", shown.length ? `picker-option-${at}` : "");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };

  const choose = async (option) => {
    closePicker();
    if (await property.send(task, option.value)) {
      showToast(property.done(task, option.text));
      if (!document.querySelector("main[data-live]")) location.reload();
    }
  };

  field.addEventListener("input", () => {
    const text = field.value.toLowerCase();
    shown = options.filter((option) => option.text.toLowerCase().includes(text));
    at = 0;
    draw();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") at = Math.min(at + 1, shown.length - 1);
    else if (event.key === "ArrowUp") at = Math.max(at - 1, 0);
    else if (event.key === "Enter" && shown[at]) choose(shown[at]);
    else if (event.key === "Escape" || event.key === "Tab") closePicker();
    else return;
    event.preventDefault();
    event.stopPropagation();
    if (picker) draw();
  });
  draw();
  place(element, opener.getBoundingClientRect());
  field.focus();
}

// The policy of the pages forbids style attributes in HTML, not styles that a script sets.
function place(element, anchor) {
  const { width, height } = element.getBoundingClientRect();
  element.style.left = `${Math.max(8, Math.min(anchor.left, innerWidth - width - 8))}px`;
  const below = anchor.bottom + 4;
  element.style.top = `${below + height < innerHeight ? below : Math.max(8, anchor.top - height - 4)}px`;
}

document.addEventListener("pointerdown", (event) => {
  latest = undefined;
  if (picker && !picker.element.contains(event.target)) closePicker();
});

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-pick]");
  if (button) openPicker(button.closest("[data-task]"), button.dataset.pick);
  const opener = event.target.closest?.("[data-dialog]");
  if (opener) openDialog(opener.dataset.dialog);
  if (event.target.closest?.("[data-close]")) event.target.closest("dialog")?.close();
});

function openDialog(id) {
  const dialog = document.getElementById(id);
  dialog?.showModal();
}

// A time is typed in the viewer's zone, and sent in UTC.
document.addEventListener("formdata", (event) => {
  for (const field of event.target.querySelectorAll("[data-utc]")) {
    if (field.value) event.formData.set(field.name, new Date(field.value).toISOString());
  }
});

// A property is saved as soon as another value is chosen.
document.addEventListener("change", (event) => {
  if (event.target.closest?.("[data-submit-on-change]")) event.target.form.requestSubmit();
});

// On a slow machine a value can be chosen before this runs. Values that a reload or the way back restores do not count.
if (performance.getEntriesByType("navigation")[0]?.type === "navigate") {
  for (const form of document.querySelectorAll("[data-submit-on-change]")) if (hasEdits(form)) form.requestSubmit();
}

// Filter what is shown while the visitor types. The words are part of the address, so that a reload and a link keep
// them.
function filterTasks(text) {
  const wanted = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  for (const task of document.querySelectorAll("#live [data-words]")) {
    task.hidden = !wanted.every((word) => task.dataset.words.includes(word));
  }
  // A heading above nothing is only in the way; columns of a board keep their places.
  const groups = [...document.querySelectorAll("#live .task-group")];
  for (const group of groups) group.hidden = !group.querySelector("[data-words]:not([hidden])");
  const note = document.querySelector("[data-no-match]");
  if (note) note.hidden = !groups.length || groups.some((group) => !group.hidden);
}

function withFilter(address, text) {
  const url = new URL(address);
  if (text) url.searchParams.set("text", text);
  else url.searchParams.delete("text");
  return url.href;
}

// The button that saves the filter; one that is saved already needs none.
function offerToSave(text) {
  const form = document.querySelector("[data-save-filter]");
  if (!form) return;
  const words = text.toLowerCase().split(/\s+/).filter(Boolean).join(" ");
  const links = [...document.querySelectorAll(".saved-filter a")];
  for (const link of links) {
    if (link.title === words) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  form.hidden = !words || links.some((link) => link.title === words);
  form.elements.save.value = words;
}

const filter = document.querySelector("[data-filter]");

function applyFilter() {
  const text = filter.value.trim();
  filterTasks(text);
  offerToSave(text);
  history.replaceState(null, "", withFilter(location.href, text));
  // The other views of these tasks keep the filter.
  for (const link of document.querySelectorAll(".toolbar .tabs a")) link.href = withFilter(link.href, text);
}

filter?.addEventListener("input", applyFilter);

// Select several tasks, and change them together.
const bar = document.querySelector("[data-bulk]");
const selected = new Set();

function showSelection() {
  for (const box of document.querySelectorAll(".select")) box.checked = selected.has(box.value);
  if (!bar) return;
  bar.hidden = selected.size === 0;
  bar.querySelector("[data-count]").textContent = `${selected.size} selected`;
  bar.elements.numbers.value = [...selected].join(" ");
}

document.addEventListener("change", (event) => {
  const box = event.target.closest?.(".select");
  if (!box) return;
  box.checked ? selected.add(box.value) : selected.delete(box.value);
  // The box must not hold live updates back: what is selected is kept here.
  box.defaultChecked = box.checked;
  showSelection();
});

bar?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const fields = new FormData(bar);
  if (!fields.get("state") && !fields.get("assignee") && !fields.get("priority")) {
    return showToast("Choose a state, an assignee or a priority first", { failed: true });
  }
  const answer = await sendForm(bar.getAttribute("action"), fields);
  if (!answer) return undefined;
  showToast(`Changed ${answer.tasks.length} ${answer.tasks.length === 1 ? "task" : "tasks"}`);
  selected.clear();
  bar.reset();
  return showSelection();
});

bar?.querySelector("[data-clear]").addEventListener("click", () => {
  selected.clear();
  showSelection();
});

// The focus follows a card that an update has moved: its old place belongs to another task now.
function followLatest() {
  const task = document.querySelector(`[data-task="${latest}"]`);
  if (!task || picker || document.querySelector("dialog[open]")) return;
  for (const item of document.querySelectorAll("[data-item].selected")) item.classList.remove("selected");
  task.classList.add("selected");
  task.querySelector("[data-open]")?.focus({ preventScroll: true });
}

// After live.js has replaced the list: what was filtered and selected stays so.
export function restoreTasks() {
  if (latest) followLatest();
  if (filter?.value) filterTasks(filter.value);
  const present = new Set([...document.querySelectorAll("[data-task]")].map((task) => task.dataset.task));
  for (const number of selected) if (!present.has(number)) selected.delete(number);
  showSelection();
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, dialog, .picker")) return;
  if (["j", "k"].includes(event.key)) latest = undefined;
  if (event.defaultPrevented) return;
  const task = document.activeElement?.closest("[data-task]") ?? document.querySelector("[data-task].selected");
  const name = { s: "state", a: "assignee", p: "priority" }[event.key];
  if (event.key === "c" && document.getElementById("new-task")) openDialog("new-task");
  else if (event.key === "x" && task?.querySelector(".select")) task.querySelector(".select").click();
  else if (name && task?.querySelector(`[data-pick="${name}"]`)) openPicker(task, name);
  else return;
  event.preventDefault();
});

// On a slow machine words can be typed or removed before this runs.
if (filter?.value || filter?.defaultValue) applyFilter();
