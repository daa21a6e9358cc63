// What pages do better with a script: copy a command line, stay up to date. Everything else works without.
document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  navigator.clipboard.writeText(button.previousElementSibling.textContent).then(() => {
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
});
for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = false;

// A stream says that something happened; then the page is fetched anew, and its live parts are put in place of the old
// ones. What somebody has the focus in, or has unfolded, stays as it is.
const live = { busy: false, ticks: 0, stream: null };
const isIdle = (place) => !place.contains(document.activeElement) && !place.querySelector("details[open], .cli button:hover");
async function refresh(selector) {
  const places = [...document.querySelectorAll(selector)].filter(isIdle);
  if (live.busy || places.length === 0) return;
  live.busy = true;
  try {
    const answer = await fetch(location.href, { headers: { "x-live": "1" } });
    if (!answer.ok || answer.redirected) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const place of places) {
      const fresh = page.getElementById(place.id);
      if (fresh && isIdle(place)) place.replaceWith(document.adoptNode(fresh));
    }
    for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = false;
  } catch { /* the next event tries again */ } finally { live.busy = false; }
}
function listen() {
  if (live.stream || document.hidden || !document.querySelector("[data-live]")) return;
  live.stream = new EventSource(document.body.dataset.source);
  live.stream.addEventListener("changed", () => refresh("[data-live]"));
  live.stream.addEventListener("tick", () => {
    live.ticks += 1;
    refresh(live.ticks % 6 === 0 ? "[data-live=tick], [data-live=slow]" : "[data-live=tick]");
  });
}
function hush() {
  if (live.stream) live.stream.close();
  live.stream = null;
}
document.addEventListener("visibilitychange", () => (document.hidden ? hush() : listen()));
addEventListener("pagehide", hush);
addEventListener("pageshow", listen);
