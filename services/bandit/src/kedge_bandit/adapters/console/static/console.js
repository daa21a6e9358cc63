// What pages do better with a script: copy a command line. Everything else works without.
document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  navigator.clipboard.writeText(button.previousElementSibling.textContent).then(() => {
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
});
for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = false;
