// Keep the page current: one event stream per page, closed while the page is hidden.

import { resetDrag } from "./board.js";
import { FIELDS, formToken, hasEdits, SIGNED_OUT } from "./forms.js";
import { restoreSelection } from "./keys.js";
import { showCopyButtons } from "./menus.js";
import { isNotifying, updateBadge } from "./notify.js";
import { isPointerDown, onPointerUp } from "./pointer.js";
import { restoreTasks } from "./tasks.js";
import { localizeTimes } from "./times.js";
import { showToast } from "./toast.js";

const FOCUSABLE = "a, button, summary";
const ITEMS = "[data-item], tr, li, article, section";
const SCROLLABLE = ".scroll, .board, .board-column ul, pre";
const RECONNECT_MS = 5000;

const address = document.querySelector("main[data-live]")?.dataset.live;
const container = document.getElementById("live");
let stream;
let shownHtml = "";
let heldHtml; // an update that waits until the page may be replaced
let leaving = false;
let warned = false;

// Whether replacing the page now would lose something: a field in use or edited, or a card that is being dragged.
const isBusy = () =>
  (container.contains(document.activeElement) && document.activeElement.matches(FIELDS))
  || hasEdits(container)
  || container.querySelector(".dragging") !== null;

// Describe the focused element so that its successor can be found: by its link, else by its place.
function locateFocus() {
  const element = document.activeElement;
  if (!element || !container.contains(element)) return undefined;
  const item = element.closest(ITEMS);
  return {
    href: element.getAttribute("href"),
    itemIndex: [...container.querySelectorAll(ITEMS)].indexOf(item),
    indexInItem: item ? [...item.querySelectorAll(FOCUSABLE)].indexOf(element) : -1,
  };
}

function restoreFocus(place) {
  if (!place) return;
  const linked = place.href && [...container.querySelectorAll("a")].find((a) => a.getAttribute("href") === place.href);
  const item = container.querySelectorAll(ITEMS)[place.itemIndex];
  (linked || item?.querySelectorAll(FOCUSABLE)[place.indexInItem])?.focus({ preventScroll: true });
}

function show(html) {
  if (html === shownHtml) {
    heldHtml = undefined;
    delete container.dataset.held;
  } else if (isPointerDown()) {
    heldHtml = html;
    onPointerUp(showHeld);
  } else if (isBusy()) {
    heldHtml = html;
    container.dataset.held = ""; // the style sheet says that there is an update
  } else {
    heldHtml = undefined;
    delete container.dataset.held;
    replace(html);
  }
}

function replace(html) {
  shownHtml = html;
  const focus = locateFocus();
  const folds = [...container.querySelectorAll("details")];
  const isOpen = new Map(folds.map((details, at) => [details.id || at, details.open]));
  const scrolled = [...container.querySelectorAll(SCROLLABLE)].map((box) => [box.scrollLeft, box.scrollTop]);
  container.innerHTML = html; // rendered and escaped by the server; the page's policy lets no script in it run
  // The HTML is rendered once for all viewers, so it carries no form token.
  for (const field of container.querySelectorAll('input[name="csrf"]')) field.value = formToken();
  container.querySelectorAll("details").forEach((details, at) => (details.open ||= isOpen.get(details.id || at)));
  container.querySelectorAll(SCROLLABLE).forEach((box, at) => scrolled[at] && box.scrollTo(...scrolled[at]));
  restoreFocus(focus);
  restoreSelection();
  restoreTasks();
  localizeTimes(container);
  showCopyButtons(container);
  resetDrag();
}

// Later: during "focusout" the field that gets the focus next does not have it yet, and the page seems not busy.
const showHeld = () => setTimeout(() => heldHtml !== undefined && show(heldHtml), 0);

function connect() {
  if (stream || !address || !container) return;
  stream = new EventSource(`/live?page=${encodeURIComponent(address)}`);
  stream.addEventListener("ready", () => {
    container.dataset.state = "live";
    warned = false;
  });
  stream.addEventListener("changed", (event) => {
    const { html, badge } = JSON.parse(event.data);
    show(html);
    updateBadge(badge);
  });
  stream.addEventListener("signed-out", leave);
  stream.addEventListener("error", handleError);
}

function disconnect() {
  stream?.close();
  stream = undefined;
}

// Go to sign in, and come back here; not while something is being typed, also in a dialog, which would be lost.
function leave() {
  if (isBusy() || hasEdits()) {
    if (!warned) showToast(SIGNED_OUT.error, { failed: true, hint: SIGNED_OUT.hint });
    warned = true;
    return;
  }
  // The stream and the page may both say so: a second navigation would abort the first.
  if (leaving) return;
  leaving = true;
  location.assign(`/signin?next=${encodeURIComponent(address)}`);
}

async function handleError() {
  container.dataset.state = "cut";
  if (stream?.readyState !== EventSource.CLOSED) return; // the browser reconnects by itself
  disconnect();
  const page = await fetch(address, { method: "HEAD" }).catch(() => undefined);
  if (page?.redirected) leave();
  // Also after a warning: one may sign in in another tab.
  if (!leaving) setTimeout(connect, RECONNECT_MS);
}

for (const name of ["focusout", "reset", "dragend"]) container?.addEventListener(name, showHeld);
document.addEventListener("visibilitychange", () => (document.hidden && !isNotifying() ? disconnect() : connect()));
addEventListener("pagehide", disconnect);
addEventListener("pageshow", connect);
connect();
