// Sends what is chosen, and shows what comes.
"use strict";
(() => {
  const at = (name) => document.querySelector(name);
  at("#operation").addEventListener("change", (event) => {
    at("#address").value = event.target.value.split(" ")[1];
  });
  at("#call").addEventListener("submit", async (event) => {
    event.preventDefault();
    const method = at("#operation").value.split(" ")[0];
    const body = ["POST", "PUT", "PATCH"].includes(method) ? at("#body").value : undefined;
    const headers = body === undefined ? {} : { "Content-Type": "application/json" };
    const answer = await fetch(place(at("#address").value), { method, headers, body });
    const text = await answer.text();
    at("#status").textContent = `${answer.status} ${answer.headers.get("Content-Type") || ""}`;
    try {
      at("#answer").textContent = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      at("#answer").textContent = text;
    }
  });
})();
