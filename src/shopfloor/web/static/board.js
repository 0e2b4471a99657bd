// Drag a task to another column. Columns that it may not go to are marked at once; the server still decides.

import { moveTask } from "./tasks.js";
import { showToast } from "./toast.js";

const getColumns = () => document.querySelectorAll(".board-column");
let dragged;

// Forget the dragged card: live.js calls this when it has replaced the board.
export function resetDrag() {
  dragged = undefined;
}

function endDrag() {
  getColumns().forEach((column) => column.classList.remove("can-drop", "cannot-drop"));
  dragged?.classList.remove("dragging");
  dragged = undefined;
}

document.addEventListener("dragstart", (event) => {
  const card = event.target.closest?.(".task-card[draggable]");
  if (!card) return;
  dragged = card;
  event.dataTransfer.effectAllowed = "move";
  event.dataTransfer.setData("text/plain", card.dataset.task);
  card.classList.add("dragging");
  const allowedStates = card.dataset.moves.split(" ");
  if ("canComplete" in card.dataset) allowedStates.push("COMPLETED");
  getColumns().forEach((column) => {
    if (column === card.closest(".board-column")) return;
    column.classList.add(allowedStates.includes(column.dataset.state) ? "can-drop" : "cannot-drop");
  });
});

document.addEventListener("dragover", (event) => {
  // Only a column that takes the task allows the drop: elsewhere the pointer says so.
  if (dragged && event.target.closest?.(".can-drop")) event.preventDefault();
});

document.addEventListener("dragend", endDrag);

document.addEventListener("drop", async (event) => {
  const column = event.target.closest?.(".can-drop");
  if (!dragged || !column) return;
  event.preventDefault();
  const card = dragged;
  endDrag();
  const state = column.dataset.state.toLowerCase().replaceAll("_", " ");
  if (await moveTask(card, column.dataset.state)) showToast(`${card.dataset.id}: ${state}`);
});
