// What every page has: the theme.
"use strict";
(() => {
  const root = document.documentElement;
  const button = document.querySelector("#theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = localStorage.getItem("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => button.setAttribute("aria-pressed", String(isDark()));
  if (kept) root.dataset.theme = kept;
  show();
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
    show();
    document.dispatchEvent(new Event("theme"));
  });
})();

const place = (path) => document.body.dataset.root + path;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// An EventSource that also comes back when the gateway answered with an error, from where it was.
function listen(path, query, onData, onState) {
  let last = null;
  let source = null;
  const open = () => {
    const all = new URLSearchParams(query);
    if (last) all.set("after", last);
    source = new EventSource(`${place(path)}?${all}`);
    source.onopen = () => onState && onState(true);
    source.onmessage = (event) => {
      last = event.lastEventId || last;
      onData(JSON.parse(event.data), event);
    };
    source.onerror = () => {
      if (onState) onState(false);
      if (source.readyState === EventSource.CLOSED) setTimeout(open, 1000);
    };
  };
  open();
  return () => source.close();
}
