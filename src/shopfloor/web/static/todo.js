// The todo page: add a task without a reload, in the time zone of the browser.

import { refreshList, sendForm } from "./list.js";

const add = document.getElementById("add");
const zone = document.querySelector("[data-zone]");
zone.value = zone.defaultValue = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

add.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (await sendForm(add)) {
    add.reset();
    add.querySelector("details").removeAttribute("open");
    // The event stream may have shown the new task already, and the person may have moved on to it.
    if (document.activeElement === document.body || add.contains(document.activeElement)) add.elements.title.focus();
    await refreshList();
  }
});
