// The chat page: what is said goes out as JSON and comes back as a stream of events. Text is only ever set as text.

import { csrf, look, say } from "./list.js";

const messages = document.getElementById("messages");
const form = document.getElementById("say");
const chosen = document.getElementById("conversations");
const forget = document.getElementById("forget");
const DEEDS = {
  add_task: "added a task", list_tasks: "looked at the list", complete_task: "completed a task",
  delete_task: "deleted a task", update_task: "changed a task",
};
let conversation = null;

function show(role, text, failed) {
  const message = document.createElement("div");
  message.className = `message ${role}${failed ? " failed" : ""}`;
  message.textContent = text;
  messages.append(message);
  messages.scrollTop = messages.scrollHeight;
  return message;
}

function deed(call) {
  const line = document.createElement("div");
  line.className = "deed";
  line.textContent = call.result.question ? "asked before deleting" : call.result.success ? DEEDS[call.tool] : `could not: ${call.result.error}`;
  messages.append(line);
}

function askConsent(calls) {
  if (!calls.some((call) => call.result.question)) return;
  const row = document.createElement("div");
  row.className = "consent";
  for (const word of ["Yes", "No"]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = word;
    button.addEventListener("click", () => talk(word));
    row.append(button);
  }
  messages.append(row);
  messages.scrollTop = messages.scrollHeight;
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    let end;
    while ((end = rest.indexOf("\n\n")) >= 0) {
      const lines = rest.slice(0, end).split("\n");
      rest = rest.slice(end + 2);
      const name = lines.find((line) => line.startsWith("event: "))?.slice(7);
      const data = lines.find((line) => line.startsWith("data: "))?.slice(6);
      if (name) yield [name, JSON.parse(data)];
    }
  }
}

async function talk(text) {
  messages.querySelectorAll(".consent").forEach((row) => row.remove());
  say("");
  busy(true);
  show("user", text);
  const answer = show("assistant", "…");
  let written = "";
  let finished = false;
  try {
    const response = await fetch("/api/chat", {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "text/event-stream", "X-CSRF-Token": csrf() },
      body: JSON.stringify(conversation ? { message: text, conversationId: conversation } : { message: text }),
    });
    if (response.status === 401) return location.assign("/signin?next=/chat");
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const [name, data] of events(response)) {
      if (name === "start") conversation = data.conversationId;
      if (name === "text") answer.textContent = written += data.delta;
      if (name === "tool") { deed(data); messages.append(answer); }
      if (name === "done") {
        finished = true;
        answer.textContent = data.response;
        answer.classList.toggle("failed", Boolean(data.error));
        askConsent(data.toolCalls);
      }
    }
    if (!finished) throw new Error("The connection was cut; the answer is kept in the conversation.");
    await look();
    await conversations();
  } catch (error) {
    if (!written) answer.remove();
    say(error.message);
  } finally {
    busy(false);
    messages.scrollTop = messages.scrollHeight;
    form.elements.message.focus();
  }
}

function busy(is) {
  form.querySelector("button").disabled = is;
  messages.setAttribute("aria-busy", String(is));
}

async function conversations() {
  const response = await fetch("/api/conversations");
  if (!response.ok) return;
  const options = (await response.json()).conversations.map((each) => new Option(each.title, each.conversationId));
  chosen.replaceChildren(new Option("New conversation", ""), ...options);
  chosen.value = conversation ?? "";
  forget.hidden = !conversation;
}

async function read(id) {
  messages.replaceChildren();
  conversation = id || null;
  forget.hidden = !conversation;
  if (!conversation) return;
  const response = await fetch(`/api/conversations/${conversation}`);
  if (!response.ok) return say("This conversation is gone.");
  const body = await response.json();
  for (const message of body.messages) {
    message.toolCalls.forEach(deed);
    show(message.role, message.text, message.error);
  }
  if (body.asked.length) askConsent([{ result: { question: true } }]);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = form.elements.message.value.trim();
  if (!text) return;
  form.reset();
  talk(text);
});
form.elements.message.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    form.requestSubmit();
  }
});
chosen.addEventListener("change", () => read(chosen.value));
forget.addEventListener("click", async () => {
  const response = await fetch(`/api/conversations/${conversation}`, { method: "DELETE", headers: { "X-CSRF-Token": csrf() } });
  say(response.ok ? "" : "The conversation could not be deleted.");
  await read("");
  await conversations();
});
conversations();
