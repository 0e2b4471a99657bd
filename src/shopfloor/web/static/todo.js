// The todo page: adding without a reload, and the visitor's own zone.

import { look, send } from "./list.js";

const add = document.getElementById("add");
const zone = document.querySelector("[data-zone]");
zone.value = zone.defaultValue = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

add.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (await send(add)) {
    add.reset();
    add.querySelector("details").removeAttribute("open");
    add.elements.title.focus();
    await look();
  }
});
