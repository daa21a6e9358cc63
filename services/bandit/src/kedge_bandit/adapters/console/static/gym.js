// Step by keys, and say the step to whoever cannot see it. Without a script the same links are links.
const KEYS = { ArrowLeft: "go-prev", ArrowRight: "go-next", Home: "go-first", End: "go-last" };
document.addEventListener("keydown", (event) => {
  const inField = event.target.closest("input, select, textarea, .scroll");
  if (!(event.key in KEYS) || inField || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const link = document.getElementById(KEYS[event.key]);
  if (!link) return;
  event.preventDefault();
  if (link.href) link.click();
});
document.addEventListener("htmx:afterSettle", () => {
  document.getElementById("said").textContent = document.getElementById("at").textContent;
});
