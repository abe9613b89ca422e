// What a condition means, or where it goes wrong, while it is typed.
"use strict";
(() => {
  const text = document.querySelector("#where");
  const said = document.querySelector("#meaning");
  let due = 0;
  const line = (tag, className, content) => Object.assign(document.createElement(tag), { className, textContent: content });
  const look = async () => {
    const where = text.value;
    if (!where.trim()) return said.replaceChildren();
    const answer = await fetch(place("/v1/conditions"), {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ where }),
    });
    const found = await answer.json();
    if (text.value !== where) return;
    text.setAttribute("aria-invalid", String(!answer.ok));
    if (answer.ok) return said.replaceChildren(line("p", "dim code", found.normal_form));
    const parts = [line("p", "bad", found.detail)];
    if (Number.isInteger(found.position)) {
      const characters = [...where]; // positions count code points
      const at = found.position;
      const shown = line("p", "error-line code", characters.slice(0, at).join(""));
      shown.append(line("mark", "", characters.slice(at, at + 1).join("") || "⏎"), characters.slice(at + 1).join(""));
      parts.unshift(shown);
    }
    said.replaceChildren(...parts);
  };
  text.addEventListener("input", () => {
    clearTimeout(due);
    due = setTimeout(look, 200);
  });
  look();
})();
