// What a visitor is about to click must not be replaced under the pointer: whoever changes a page asks here first.

let down = false;
const waiting = new Set();

export const pressed = () => down;

export function whenReleased(act) {
  waiting.add(act);
}

function released() {
  if (!down) return;
  down = false;
  setTimeout(() => {
    const acts = [...waiting];
    waiting.clear();
    acts.forEach((act) => act());
  }, 0); // the click comes first
}

addEventListener("pointerdown", () => (down = true), true);
for (const end of ["pointerup", "pointercancel", "dragend", "change", "blur"]) addEventListener(end, released, true);
