// Whether a mouse button or finger is down. Code that replaces part of a page asks here first: a browser sends the
// click to the element that got both "pointerdown" and "pointerup", so replacing it in between would swallow the click.

let down = false;
const callbacks = new Set();

export const isPointerDown = () => down;

export function onPointerUp(callback) {
  callbacks.add(callback);
}

function release() {
  if (!down) return;
  down = false;
  setTimeout(() => {
    const due = [...callbacks];
    callbacks.clear();
    due.forEach((callback) => callback());
  }, 0); // after the click, which the browser dispatches first
}

addEventListener("pointerdown", () => (down = true), true);
// A drag, a select box and a lost window end a press without "pointerup".
for (const name of ["pointerup", "pointercancel", "dragend", "change", "blur"]) addEventListener(name, release, true);
