// A board by hand: a ticket is dragged to another column; where it may not go is seen before, and refused after.

import { say, send } from "./forms.js";

const csrf = document.querySelector('meta[name="csrf"]')?.content ?? "";
const columns = () => document.querySelectorAll(".board .col");
let moving;

export function settle() {
  moving = undefined;
}

function clear() {
  columns().forEach((column) => column.classList.remove("may", "no"));
  moving?.classList.remove("moving");
  moving = undefined;
}

document.addEventListener("dragstart", (event) => {
  const ticket = event.target.closest?.(".ticket[draggable]");
  if (!ticket) return;
  moving = ticket;
  event.dataTransfer.effectAllowed = "move";
  event.dataTransfer.setData("text/plain", ticket.dataset.task);
  ticket.classList.add("moving");
  const allowed = ticket.dataset.moves.split(" ");
  columns().forEach((column) => {
    if (column === ticket.closest(".col")) return;
    column.classList.add(allowed.includes(column.dataset.state) ? "may" : "no");
  });
});

document.addEventListener("dragover", (event) => {
  if (moving && event.target.closest?.(".col")) event.preventDefault();
});

document.addEventListener("dragend", clear);

document.addEventListener("drop", async (event) => {
  const column = event.target.closest?.(".col");
  if (!moving || !column) return;
  event.preventDefault();
  const board = column.closest(".board");
  const fields = { csrf, number: moving.dataset.task, kind: board.dataset.board, board: board.dataset.name, state: column.dataset.state };
  const same = column === moving.closest(".col");
  clear();
  if (!same && (await send(board.dataset.move, fields))) say("Moved", true);
});
