// Keys on lists: j and k to go, Enter to open, a to acknowledge, m to mute, / to search.

const items = () => [...document.querySelectorAll("[data-item]")];
let at = -1;

function choose(to) {
  const all = items();
  if (!all.length) return;
  at = Math.max(0, Math.min(to, all.length - 1));
  all.forEach((each, index) => each.classList.toggle("chosen", index === at));
  const link = all[at].querySelector("[data-open]") ?? all[at];
  link.focus({ preventScroll: true });
  all[at].scrollIntoView({ block: "nearest" });
}

const here = () => {
  const focused = document.activeElement?.closest("[data-item]");
  return focused ? items().indexOf(focused) : at;
};

export function chooseAgain() {
  const all = items();
  if (at < 0 || !all.length) return;
  at = Math.min(here(), all.length - 1);
  all[at].classList.add("chosen");
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  if (event.key === "j") choose(here() + 1);
  else if (event.key === "k") choose(here() - 1);
  else if (event.key === "/") document.querySelector("[type=search]")?.focus();
  else if (["a", "m"].includes(event.key)) items()[here()]?.querySelector(`[data-key="${event.key}"] button`)?.click();
  else return;
  event.preventDefault();
});
