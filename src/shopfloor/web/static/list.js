// The todo list on a page: send its forms without a reload, and fetch it again when it has changed.

import { callTool, hasEdits, SIGNED_OUT } from "./forms.js";
import { isPointerDown, onPointerUp } from "./pointer.js";

const list = document.getElementById("list");
const problem = document.getElementById("problem");

export function showProblem(text) {
  problem.textContent = text;
  problem.hidden = !text;
}

const showError = ({ error, hint }) => showProblem([error, hint].filter(Boolean).join("\n"));

// Go to sign in, and come back here; not while something is being typed, which would be lost.
export function leave() {
  if (hasEdits()) showError(SIGNED_OUT);
  else location.assign(`/signin?next=${location.pathname}`);
}

export async function refreshList() {
  if (isPointerDown()) return onPointerUp(refreshList);
  // Leave a form alone that is being filled in, and an older page of the list, which has no updates.
  if (list.querySelector("details[open] form :focus") || location.search.includes("cursor=")) return;
  const response = await fetch(`/todo/list?filter=${list.dataset.filter}`);
  if (response.status === 401) return leave();
  if (!response.ok) return;
  const html = await response.text();
  if (isPointerDown()) return onPointerUp(refreshList);
  replaceList(html);
}

function replaceList(html) {
  const openTasks = [...list.querySelectorAll("li:has(> .content > details[open])")].map((item) => item.dataset.task);
  const deletedOpen = list.querySelector(".deleted")?.open;
  const hasFocus = list.contains(document.activeElement);
  const focusedTask = hasFocus ? document.activeElement.closest("li")?.dataset.task : undefined;
  list.innerHTML = html; // rendered and escaped by the server
  for (const id of openTasks) list.querySelector(`li[data-task="${id}"] details`)?.setAttribute("open", "");
  if (deletedOpen) list.querySelector(".deleted")?.setAttribute("open", "");
  if (focusedTask) list.querySelector(`li[data-task="${focusedTask}"] button`)?.focus();
}

// Return whether the server accepted the form; what went wrong is shown above the list, and what was typed stays.
export async function sendForm(form) {
  const buttons = form.querySelectorAll("button");
  buttons.forEach((button) => (button.disabled = true));
  const { answer, ...problem } = await callTool("/todo", new FormData(form));
  buttons.forEach((button) => (button.disabled = false));
  showError(problem);
  return answer !== undefined;
}

list.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (await sendForm(event.target)) {
    event.target.closest("details")?.removeAttribute("open");
    await refreshList();
  }
});

const changes = new EventSource("/todo/events");
changes.addEventListener("changed", refreshList);
changes.addEventListener("signed-out", leave);
// A rejected stream does not say why; fetching the list does, and goes to sign in when that is the reason.
changes.addEventListener("error", () => changes.readyState === EventSource.CLOSED && refreshList());
addEventListener("pagehide", () => changes.close());
// The browser's back button may show a page from before the sign-out: load it again.
addEventListener("pageshow", (event) => event.persisted && location.reload());
