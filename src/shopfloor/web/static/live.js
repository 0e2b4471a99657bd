// What the page shows, again whenever it changed: one stream, closed while nobody looks.

import { localise } from "./times.js";
import { settle } from "./board.js";
import { told, wanted } from "./notify.js";
import { pressed, whenReleased } from "./hands.js";
import { chooseAgain } from "./keys.js";

const address = document.querySelector("main[data-live]")?.dataset.live;
const place = document.getElementById("live");
const csrf = document.querySelector('meta[name="csrf"]')?.content ?? "";
let stream;
let last = "";
let held;

const FIELDS = "input:not([type=hidden]), textarea, select";

function edited(field) {
  if (field.type === "checkbox") return field.checked !== field.defaultChecked;
  if (field.tagName !== "SELECT") return field.value !== field.defaultValue;
  return field.selectedIndex !== Math.max(0, [...field.options].findIndex((option) => option.defaultSelected));
}

const busy = () =>
  place.contains(document.activeElement) && document.activeElement.matches(FIELDS)
  || [...place.querySelectorAll(FIELDS)].some(edited)
  || place.querySelector(".moving") !== null;

function mark(element) {
  if (!element || !place.contains(element)) return undefined;
  const item = element.closest("[data-item], tr, li, article, section");
  const items = [...place.querySelectorAll("[data-item], tr, li, article, section")];
  const within = item ? [...item.querySelectorAll("a, button, summary")].indexOf(element) : -1;
  return { item: items.indexOf(item), href: element.getAttribute("href"), within };
}

function focusAgain(marked) {
  if (!marked) return;
  const linked = marked.href && [...place.querySelectorAll("a")].find((a) => a.getAttribute("href") === marked.href);
  const item = place.querySelectorAll("[data-item], tr, li, article, section")[marked.item];
  (linked || item?.querySelectorAll("a, button, summary")[marked.within])?.focus({ preventScroll: true });
}

function show(html) {
  if (html === last) {
    held = undefined;
    delete place.dataset.held;
    return;
  }
  if (pressed() || busy()) {
    held = html;
    if (pressed()) whenReleased(release);
    else place.dataset.held = "";
    return;
  }
  delete place.dataset.held;
  last = html;
  held = undefined;
  const marked = mark(document.activeElement);
  const open = [...place.querySelectorAll("details")].map((each) => each.open);
  const scrolled = [...place.querySelectorAll(".scroll, .board, pre")].map((each) => [each.scrollLeft, each.scrollTop]);
  place.innerHTML = html; // rendered and escaped by the server; the policy of the page lets no script in it run
  for (const field of place.querySelectorAll('input[name="csrf"]')) field.value = csrf;
  place.querySelectorAll("details").forEach((each, at) => open[at] && (each.open = true));
  place.querySelectorAll(".scroll, .board, pre").forEach((each, at) => scrolled[at] && each.scrollTo(...scrolled[at]));
  focusAgain(marked);
  chooseAgain();
  localise(place);
  settle();
}

function changed(event) {
  const { html, badge } = JSON.parse(event.data);
  show(html);
  told(badge);
}

function listen() {
  if (stream || !address || !place) return;
  stream = new EventSource(`/live?page=${encodeURIComponent(address)}`);
  stream.addEventListener("ready", () => (place.dataset.state = "live"));
  stream.addEventListener("changed", changed);
  stream.addEventListener("signed-out", () => location.assign("/signin"));
  stream.addEventListener("error", cut);
}

async function cut() {
  place.dataset.state = "cut";
  if (stream?.readyState !== EventSource.CLOSED) return; // it comes back by itself
  leave();
  const page = await fetch(address, { method: "HEAD" }).catch(() => undefined);
  if (page?.redirected) location.assign("/signin");
  else setTimeout(listen, 5000);
}

function leave() {
  stream?.close();
  stream = undefined;
}

const release = () => setTimeout(() => held !== undefined && show(held), 0);

for (const end of ["focusout", "reset", "dragend"]) place?.addEventListener(end, release);
document.addEventListener("visibilitychange", () => (document.hidden && !wanted() ? leave() : listen()));
addEventListener("pagehide", leave);
addEventListener("pageshow", listen);
listen();
