// How much waits, in the title and beside the word Inbox; on the desktop only for whoever wants that.

const badge = document.querySelector("[data-badge]");
const button = document.getElementById("notify");
const plain = document.title.replace(/^\(\d+\+?\) /, "");
let before = Number.parseInt(badge?.textContent || "0", 10);

export const wanted = () =>
  "Notification" in window && localStorage.getItem("notify") === "yes" && Notification.permission === "granted";

export function told(text) {
  if (text === null) return;
  const count = Number.parseInt(text, 10);
  if (badge) {
    badge.textContent = text;
    badge.hidden = count === 0;
  }
  document.title = count ? `(${text}) ${plain}` : plain;
  if (count > before && wanted()) {
    const newest = document.querySelector(".item b")?.textContent; // a notification shows text as text
    const body = newest ? `${newest}\n${text} wait for you` : `${text} wait for you`;
    new Notification("Shopfloor", { body, tag: "shopfloor-inbox" });
  }
  before = count;
}

if (button && "Notification" in window) {
  const show = () => (button.textContent = wanted() ? "Do not notify me any more" : "Notify me on this desktop");
  button.hidden = false;
  show();
  button.addEventListener("click", async () => {
    if (wanted()) localStorage.removeItem("notify");
    else if ((await Notification.requestPermission()) === "granted") localStorage.setItem("notify", "yes");
    show();
  });
}
