// The chat page: a message is sent as JSON, and its answer arrives as a stream of events. Text is only ever set as
// text, never as HTML: a model wrote it.

import { formToken, SIGNED_OUT } from "./forms.js";
import { refreshList, showProblem } from "./list.js";

const messages = document.getElementById("messages");
const form = document.getElementById("compose");
const picker = document.getElementById("conversations");
const deleteButton = document.getElementById("delete-conversation");
const TOOL_LABELS = {
  add_task: "added a task",
  list_tasks: "read the list",
  complete_task: "completed a task",
  delete_task: "deleted a task",
  update_task: "changed a task",
};
let conversation = null;

function showMessage(role, text, failed) {
  const message = document.createElement("div");
  message.className = `message ${role}${failed ? " failed" : ""}`;
  message.textContent = text;
  messages.append(message);
  messages.scrollTop = messages.scrollHeight;
  return message;
}

function describeCall({ tool, result }) {
  if (result.question) return "asked before deleting";
  return result.success ? TOOL_LABELS[tool] : `failed: ${result.error}`;
}

function showToolCall(call) {
  const line = document.createElement("div");
  line.className = "tool-call";
  line.textContent = describeCall(call);
  messages.append(line);
}

// The id of the confirmation decides, not the words: typing "yes" deletes nothing.
function askConfirmation(confirmation) {
  if (!confirmation) return;
  const row = document.createElement("div");
  row.className = "confirmation";
  row.append(
    makeButton("Delete", () => sendMessage("Yes, delete.", confirmation.id)),
    makeButton("Keep", () => sendMessage("No, keep.")),
  );
  messages.append(row);
  messages.scrollTop = messages.scrollHeight;
}

function makeButton(label, action) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = label;
  button.addEventListener("click", action);
  return button;
}

// Yield the name and data of each server-sent event: EventSource cannot send a POST.
async function* readEvents(response) {
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

// Return whether the server has got the message.
async function sendMessage(text, confirmationId) {
  messages.querySelectorAll(".confirmation").forEach((row) => row.remove());
  showProblem("");
  setBusy(true);
  const message = showMessage("user", text);
  const answer = showMessage("assistant", "…");
  let written = "";
  let started = false;
  let finished = false;
  try {
    const response = await fetch("/api/chat", {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "text/event-stream", "X-CSRF-Token": formToken() },
      body: JSON.stringify({ message: text, conversationId: conversation ?? undefined, confirmationId }),
    });
    if (response.status === 401) throw new Error(`${SIGNED_OUT.error}\n${SIGNED_OUT.hint}`);
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const [name, data] of readEvents(response)) {
      if (name === "start") {
        started = true;
        conversation = data.conversationId;
      }
      if (name === "text") answer.textContent = written += data.delta;
      if (name === "tool") {
        showToolCall(data);
        messages.append(answer); // keeps the answer below its tool calls
      }
      if (name === "done") {
        finished = true;
        answer.textContent = data.response;
        answer.classList.toggle("failed", Boolean(data.error));
        askConfirmation(data.confirmation);
      }
    }
    if (!finished) throw new Error("The connection was lost. The answer is kept in the conversation.");
    await refreshList();
    await refreshConversations();
  } catch (error) {
    if (!written) answer.remove();
    if (!started) message.remove();
    showProblem(error.message);
  } finally {
    setBusy(false);
    messages.scrollTop = messages.scrollHeight;
    // Not when the person has moved on to the list meanwhile.
    const { activeElement, body } = document;
    if (activeElement === body || form.contains(activeElement)) form.elements.message.focus();
  }
  return started;
}

function setBusy(busy) {
  form.querySelector("button").disabled = busy;
  messages.setAttribute("aria-busy", String(busy));
}

async function refreshConversations() {
  const response = await fetch("/api/conversations");
  if (!response.ok) return;
  const options = (await response.json()).conversations.map((entry) => new Option(entry.title, entry.conversationId));
  picker.replaceChildren(new Option("New conversation", ""), ...options);
  picker.value = conversation ?? "";
  deleteButton.hidden = !conversation;
}

async function openConversation(id) {
  messages.replaceChildren();
  conversation = id || null;
  deleteButton.hidden = !conversation;
  if (!conversation) return;
  const response = await fetch(`/api/conversations/${conversation}`);
  if (!response.ok) return showProblem("Conversation not found.");
  const body = await response.json();
  for (const message of body.messages) {
    message.toolCalls.forEach(showToolCall);
    showMessage(message.role, message.text, message.error);
  }
  askConfirmation(body.confirmation);
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = form.elements.message;
  const text = field.value.trim();
  if (!text) return;
  form.reset();
  if (!(await sendMessage(text))) field.value ||= text; // to be sent again
});
form.elements.message.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    form.requestSubmit();
  }
});
picker.addEventListener("change", () => openConversation(picker.value));
deleteButton.addEventListener("click", async () => {
  const headers = { "X-CSRF-Token": formToken() };
  const response = await fetch(`/api/conversations/${conversation}`, { method: "DELETE", headers });
  showProblem(response.ok ? "" : "The conversation could not be deleted.");
  await openConversation("");
  await refreshConversations();
});
refreshConversations();
