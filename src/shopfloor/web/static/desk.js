// The desk: live updates, forms without a reload, keyboard shortcuts, and boards to drag tasks on.

import "./times.js";
import "./forms.js";
import "./menus.js";
import "./keys.js";
import "./palette.js";
import "./tasks.js";
import "./board.js";
import "./notify.js";
import "./live.js";

// The browser's back button may show a page from before the sign-out: load it again.
addEventListener("pageshow", (event) => event.persisted && location.reload());
