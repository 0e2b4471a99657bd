// Forms without a reload: what went wrong is said where one looks, what went well is seen on the page.

let shown;

export function say(text, fine = false) {
  shown?.remove();
  shown = document.createElement("p");
  shown.className = fine ? "toast fine" : "toast";
  shown.setAttribute("role", fine ? "status" : "alert");
  shown.textContent = text;
  document.body.append(shown);
  const mine = shown;
  setTimeout(() => mine.remove(), fine ? 2500 : 9000);
}

export async function send(action, fields) {
  try {
    const response = await fetch(action, {
      method: "POST",
      headers: { Accept: "application/json" },
      body: new URLSearchParams(fields),
    });
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) say([answer.error ?? "That did not work.", answer.hint].filter(Boolean).join(" "));
    return response.ok ? answer : undefined;
  } catch {
    say("The floor cannot be reached; try again in a moment.");
    return undefined;
  }
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.dataset.sure && !confirm(form.dataset.sure)) return event.preventDefault();
  if (!("act" in form.dataset) || form.action.endsWith("/key_issue")) return;
  event.preventDefault();
  const buttons = form.querySelectorAll("button");
  buttons.forEach((button) => (button.disabled = true));
  const answer = await send(form.action, new FormData(form));
  buttons.forEach((button) => (button.disabled = false));
  if (!answer) return;
  say("Done", true);
  form.reset();
  if (form.closest("#live") === null || form.querySelector("textarea, input:not([type=hidden])")) {
    form.closest("details")?.removeAttribute("open");
    document.activeElement?.blur();
  }
  if (!document.querySelector("main[data-live]")) location.reload();
});

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    say("Copied", true);
  });
}
