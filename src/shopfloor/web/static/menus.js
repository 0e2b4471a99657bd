// Menus close when one clicks elsewhere or presses Escape, one is open at a time, and code blocks can be copied.

import { showToast } from "./toast.js";

const openMenus = () => document.querySelectorAll("details.menu[open]");

document.addEventListener("click", (event) => {
  for (const menu of openMenus()) if (!menu.contains(event.target)) menu.open = false;
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of openMenus()) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

// Without scripts the buttons would do nothing, so they are hidden until now, and after each live update.
export function showCopyButtons(root = document) {
  for (const button of root.querySelectorAll("[data-copy]")) button.hidden = false;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy) ?? button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(source.textContent);
    showToast("Copied");
  } catch {
    getSelection().selectAllChildren(source); // over plain HTTP from another machine there is no clipboard
    showToast("Selected. Press Ctrl-C to copy.");
  }
});

showCopyButtons();
