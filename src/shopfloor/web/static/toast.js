// A toast says what happened, and offers to undo it where that is possible. One is shown at a time.

const TOAST_MS = 6000; // long enough to read a sentence and to reach Undo
const ERROR_TOAST_MS = 12000;

let toast;

// `hint` is a second line; `action` is a button: { label, run }.
export function showToast(text, { failed = false, hint = "", action } = {}) {
  toast?.remove();
  const element = document.createElement("div");
  element.className = failed ? "toast failed" : "toast";
  element.setAttribute("role", failed ? "alert" : "status");
  const words = document.createElement("div");
  for (const line of [text, hint].filter(Boolean)) {
    const paragraph = document.createElement("p");
    paragraph.textContent = line;
    words.append(paragraph);
  }
  element.append(words);
  if (action) element.append(makeButton(action, element));
  // Everything outside of an open dialog is inert and behind its backdrop.
  (document.querySelector("dialog[open]") ?? document.body).append(element);
  setTimeout(() => element.remove(), failed ? ERROR_TOAST_MS : TOAST_MS);
  toast = element;
}

function makeButton({ label, run }, element) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  button.textContent = label;
  button.addEventListener("click", () => {
    element.remove();
    run();
  });
  return button;
}
