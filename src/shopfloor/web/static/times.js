// Show times in the viewer's time zone: relative while they are recent, the exact time on hover.

const REFRESH_MS = 5000;

const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const year = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

function formatTime(at, now) {
  const seconds = Math.round((at - now) / 1000);
  const distance = Math.abs(seconds);
  if (distance < 5) return "now";
  if (distance < 86400) {
    const amount = formatAmount(distance);
    return seconds < 0 ? `${amount} ago` : `in ${amount}`;
  }
  const isThisYear = new Date(now).getFullYear() === new Date(at).getFullYear();
  return isThisYear ? `${day.format(at)}, ${clock.format(at)}` : year.format(at);
}

function formatAmount(seconds) {
  if (seconds < 60) return `${seconds} s`;
  return seconds < 3600 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3600)} h`;
}

function formatDuration(milliseconds) {
  const minutes = Math.floor(milliseconds / 60000);
  if (minutes < 1) return `${Math.max(1, Math.floor(milliseconds / 1000))} s`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

export function localizeTimes(root = document) {
  const now = Date.now();
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = Date.parse(time.dateTime);
    if (Number.isNaN(at)) continue;
    const text = "duration" in time.dataset ? formatDuration(now - at) : formatTime(at, now);
    if (time.textContent !== text) time.textContent = text;
    if (!time.title) time.title = `${exact.format(at)} (${time.dateTime})`;
  }
}

localizeTimes();
setInterval(() => localizeTimes(), REFRESH_MS);
