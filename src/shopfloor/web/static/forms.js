// Send forms without reloading the page. What was typed stays in the form until the server has accepted it.

import { showToast } from "./toast.js";

export const FIELDS = "input:not([type=hidden]), textarea, select";
export const SIGNED_OUT = {
  error: "You are signed out.",
  hint: "Sign in from another tab, or run `shopfloor link`. Then send again.",
};
const KEPT_TOAST = "toast";

function isEdited(field) {
  if (field.type === "checkbox") return field.checked !== field.defaultChecked;
  if (field.tagName !== "SELECT") return field.value !== field.defaultValue;
  return field.selectedIndex !== Math.max(0, [...field.options].findIndex((option) => option.defaultSelected));
}

// Whether something was typed or chosen here that has not been sent.
export const hasEdits = (root = document) => [...root.querySelectorAll(FIELDS)].some(isEdited);

const tokenOf = (root) => root.querySelector('meta[name="csrf"]')?.content ?? "";
let csrf = tokenOf(document);

export const formToken = () => csrf;

// The token changes when one signs in or out in another tab: take the one that this page would have now.
async function refreshToken() {
  const html = await fetch(location.href).then((response) => response.text());
  const found = tokenOf(new DOMParser().parseFromString(html, "text/html"));
  if (!found || found === csrf) return false;
  csrf = found;
  for (const field of document.querySelectorAll('input[name="csrf"]')) field.value = csrf;
  return true;
}

async function post(action, fields) {
  const body = new URLSearchParams(fields);
  body.set("csrf", csrf);
  const response = await fetch(action, { method: "POST", headers: { Accept: "application/json" }, body });
  return [response, await response.json().catch(() => ({}))];
}

// Return { answer } or { error, hint }; a form token that is out of date is replaced, once.
export async function callTool(action, fields) {
  try {
    let [response, answer] = await post(action, fields);
    if (response.status === 403 && (await refreshToken())) [response, answer] = await post(action, fields);
    if (response.ok) return { answer };
    if (response.status === 401) return SIGNED_OUT;
    return { error: answer.error ?? "The request failed.", hint: answer.hint };
  } catch {
    return { error: "The server cannot be reached.", hint: "Nothing was lost. Try again in a moment." };
  }
}

// Return the answer, or undefined after showing what went wrong.
export async function sendForm(action, fields) {
  const { answer, error, hint } = await callTool(action, fields);
  if (error) showToast(error, { failed: true, hint });
  return answer;
}

// Put values of the answer into a text: "Created {id}".
const fill = (text, answer) => text.replace(/\{(\w+)\}/g, (_, name) => answer[name] ?? "");

// What undoes a form that was accepted, as { action, fields }, or undefined.
function findUndo(form, answer) {
  if (!form.dataset.undo) return undefined;
  const values = Object.entries(JSON.parse(form.dataset.undoValues));
  const fields = Object.fromEntries(values.map(([name, value]) => [name, fill(String(value), answer)]));
  return { action: form.dataset.undo, fields };
}

function showDone({ text, undo }) {
  const run = async () => {
    if (!(await sendForm(undo.action, undo.fields))) return;
    showToast("Undone");
    if (!isLive()) location.reload();
  };
  showToast(text, { action: undo && { label: "Undo", run } });
}

const isLive = () => document.querySelector("main[data-live]") !== null;

// A form with fields says what is wrong itself; for a button alone, a toast does.
function showError(form, error, hint) {
  form.querySelector(".form-error")?.remove();
  // Show the value that still holds, also because an edited form keeps live updates back.
  if ("submitOnChange" in form.dataset) form.reset();
  if (!form.querySelector("textarea, input:not([type=hidden])")) return showToast(error, { failed: true, hint });
  const message = document.createElement("p");
  message.className = "problem form-error";
  message.setAttribute("role", "alert");
  message.textContent = [error, hint].filter(Boolean).join("\n");
  form.prepend(message);
}

function finish(form, answer) {
  form.querySelector(".form-error")?.remove();
  const done = { text: fill(form.dataset.done ?? "Saved", answer), undo: findUndo(form, answer) };
  form.reset();
  // live.js does not replace a form that has the focus: give it up after writing something.
  if (form.closest("#live") === null || form.querySelector("textarea, input:not([type=hidden])")) {
    form.closest("details")?.removeAttribute("open");
    form.closest("dialog")?.close();
    document.activeElement?.blur();
  }
  form.closest(".menu")?.removeAttribute("open");
  if (isLive() && !form.dataset.go) return showDone(done);
  // The next page says it: a toast of this one would be gone before it is read.
  sessionStorage.setItem(KEPT_TOAST, JSON.stringify(done));
  return form.dataset.go ? location.assign(fill(form.dataset.go, answer)) : location.reload();
}

const kept = sessionStorage.getItem(KEPT_TOAST);
if (kept) {
  sessionStorage.removeItem(KEPT_TOAST);
  showDone(JSON.parse(kept));
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.dataset.confirm && !confirm(form.dataset.confirm)) return event.preventDefault();
  // A new token is shown on a page of its own, so that form is sent by the browser.
  if (!("act" in form.dataset) || form.action.endsWith("/token_issue")) return;
  event.preventDefault();
  const buttons = form.querySelectorAll("button");
  const fields = new FormData(form, event.submitter);
  buttons.forEach((button) => (button.disabled = true));
  const { answer, error, hint } = await callTool(form.action, fields);
  buttons.forEach((button) => (button.disabled = false));
  if (answer) finish(form, answer);
  else showError(form, error, hint);
});
