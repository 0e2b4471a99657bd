// How much waits in the inbox: in the title, beside the word Inbox, and as a desktop notification for those who asked.

const badge = document.querySelector("[data-badge]");
const button = document.getElementById("notify");
const title = document.title.replace(/^\(\d+\+?\) /, "");
let lastCount = Number.parseInt(badge?.textContent || "0", 10);

export const isNotifying = () =>
  "Notification" in window && localStorage.getItem("notify") === "yes" && Notification.permission === "granted";

// Questions come first in the lists, however old they are.
function findNewest() {
  const at = (item) => item.querySelector("time")?.dateTime ?? "";
  return [...document.querySelectorAll(".inbox-row, .need")].sort((one, other) => at(other).localeCompare(at(one)))[0];
}

// `text` is a number, "200+" when there are more than were counted, or null on pages that do not know it.
export function updateBadge(text) {
  if (text === null) return;
  const count = Number.parseInt(text, 10);
  if (badge) {
    badge.textContent = text;
    badge.hidden = count === 0;
  }
  document.title = count ? `(${text}) ${title}` : title;
  if (count > lastCount && isNotifying()) {
    // A notification shows text as text.
    const newest = findNewest()?.querySelector(".inbox-title, .need-title a")?.textContent.trim();
    const waiting = `${text} ${count === 1 ? "needs" : "need"} you`;
    new Notification("Shopfloor", { body: newest ? `${newest}\n${waiting}` : waiting, tag: "shopfloor-inbox" });
  }
  lastCount = count;
}

if (button && "Notification" in window) {
  const showLabel = () =>
    (button.textContent = isNotifying() ? "Stop desktop notifications" : "Notify me on this desktop");
  button.hidden = false;
  showLabel();
  button.addEventListener("click", async () => {
    if (isNotifying()) localStorage.removeItem("notify");
    else if ((await Notification.requestPermission()) === "granted") localStorage.setItem("notify", "yes");
    showLabel();
  });
}
