// Times in the viewer's own zone, the exact one on hover.

const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

function words(at, now) {
  const seconds = Math.round((at - now) / 1000);
  const away = Math.abs(seconds);
  if (away < 5) return "now";
  if (away < 60) return seconds < 0 ? `${away} s ago` : `in ${away} s`;
  if (away < 3600) return seconds < 0 ? `${Math.floor(away / 60)} min ago` : `in ${Math.floor(away / 60)} min`;
  const date = new Date(at);
  return new Date(now).toDateString() === date.toDateString() ? clock.format(date) : `${day.format(date)}, ${clock.format(date)}`;
}

export function localise(root = document) {
  const now = Date.now();
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = Date.parse(time.dateTime);
    if (Number.isNaN(at)) continue;
    const text = words(at, now);
    if (time.textContent !== text) time.textContent = text;
    if (!time.title) time.title = `${exact.format(at)} (${time.dateTime})`;
  }
}

localise();
setInterval(() => localise(), 5000);
