// The desk: pages that keep themselves current, forms without a reload, keys, boards by hand.

import "./times.js";
import "./forms.js";
import "./keys.js";
import "./board.js";
import "./notify.js";
import "./live.js";

addEventListener("pageshow", (event) => event.persisted && location.reload()); // whoever signed out sees nothing by going back
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
