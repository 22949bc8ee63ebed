"use strict";
// Copies what stands before a button; without scripts it can be selected.
document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-copies]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copies).textContent;
  navigator.clipboard.writeText(text).then(() => { button.textContent = "Copied"; });
});
// A page that is not looked at is not read again, and what somebody types or has opened is not replaced.
document.addEventListener("htmx:beforeRequest", (event) => {
  const main = event.target.closest("main");
  const isBusy = main && (main.querySelector("details[open]") || main.contains(document.activeElement) && document.activeElement.matches("input, button, summary"));
  if (document.hidden || isBusy) event.preventDefault();
});
