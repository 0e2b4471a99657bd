// How much waits, in the title and beside the word Inbox; on the desktop only for whoever wants that.

const badge = document.querySelector("[data-badge]");
const button = document.getElementById("notify");
const plain = document.title.replace(/^\(\d+\) /, "");
let before = Number(badge?.textContent || 0);

export function told(text) {
  if (text === "") return;
  const count = Number(text);
  if (badge) {
    badge.textContent = text;
    badge.hidden = count === 0;
  }
  document.title = count ? `(${count}) ${plain}` : plain;
  if (count > before && button && localStorage.getItem("notify") === "yes" && Notification.permission === "granted") {
    new Notification("Shopfloor", { body: `${count} wait for you`, tag: "shopfloor-inbox" });
  }
  before = count;
}

if (button && "Notification" in window) {
  const wanted = () => localStorage.getItem("notify") === "yes" && Notification.permission === "granted";
  const show = () => (button.textContent = wanted() ? "Do not notify me any more" : "Notify me on this desktop");
  button.hidden = false;
  show();
  button.addEventListener("click", async () => {
    if (wanted()) localStorage.removeItem("notify");
    else if ((await Notification.requestPermission()) === "granted") localStorage.setItem("notify", "yes");
    show();
  });
}
