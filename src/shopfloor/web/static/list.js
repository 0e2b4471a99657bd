// The list on a page: sent forms without a reload, and looked at again whenever it changed.

import { pressed, whenReleased } from "./hands.js";

const list = document.getElementById("list");
const problem = document.getElementById("problem");

export const csrf = () => document.querySelector('meta[name="csrf"]').content;

export function say(text) {
  problem.textContent = text;
  problem.hidden = !text;
}

export async function look() {
  if (pressed()) return whenReleased(look);
  if (list.querySelector("details[open] form :focus") || location.search.includes("cursor=")) return;
  const response = await fetch(`/todo/list?filter=${list.dataset.filter}`);
  if (response.status === 401) return location.assign("/signin");
  if (!response.ok) return;
  const html = await response.text();
  if (pressed()) return whenReleased(look);
  const open = [...list.querySelectorAll("li:has(> .what > details[open])")].map((each) => each.dataset.task);
  const deleted = list.querySelector(".deleted")?.open;
  const focused = list.contains(document.activeElement) ? document.activeElement.closest("li")?.dataset.task : undefined;
  list.innerHTML = html; // rendered and escaped by the server
  for (const id of open) list.querySelector(`li[data-task="${id}"] details`)?.setAttribute("open", "");
  if (deleted) list.querySelector(".deleted")?.setAttribute("open", "");
  if (focused) list.querySelector(`li[data-task="${focused}"] button`)?.focus();
}

export async function send(form) {
  const buttons = form.querySelectorAll("button");
  buttons.forEach((button) => (button.disabled = true));
  try {
    const response = await fetch("/todo", {
      method: "POST",
      headers: { Accept: "text/x-fragment" },
      body: new URLSearchParams(new FormData(form)),
    });
    if (response.status === 401) {
      location.assign("/signin");
      return false;
    }
    const type = response.headers.get("content-type") ?? "";
    const answer = type.includes("json") ? await response.json() : { error: "That did not work; open the page again." };
    say(response.ok ? "" : answer.error);
    return response.ok;
  } catch {
    say("The floor cannot be reached; try again in a moment.");
    return false;
  } finally {
    buttons.forEach((button) => (button.disabled = false));
  }
}

list.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (await send(event.target)) {
    event.target.closest("details")?.removeAttribute("open");
    await look();
  }
});

const changes = new EventSource("/todo/events");
changes.addEventListener("changed", look);
changes.addEventListener("signed-out", () => location.assign("/signin"));
changes.addEventListener("error", () => changes.readyState === EventSource.CLOSED && look()); // refused: looking says why
addEventListener("pagehide", () => changes.close());
addEventListener("pageshow", (event) => event.persisted && location.reload()); // whoever signed out sees nothing by going back
