// Keeps the key of the session's pages, which shows that a yes comes from one of them: a cookie goes to every port of this
// host, and what is stored here does not. Without the key, forms ask for the password.
(() => {
  "use strict";
  const NAME = "mcpproxy-page-key";
  const store = (work) => { try { return work(localStorage); } catch { return null; } };

  // Signing in leads here with the key behind the `#`, which browsers send to nobody.
  const found = /^#key=(page_[0-9a-f]{64})$/.exec(location.hash);
  if (found) {
    store((kept) => kept.setItem(NAME, found[1]));
    history.replaceState(history.state, "", location.pathname + location.search);
  }

  const fill = () => document.querySelectorAll("[data-presence]").forEach((part) => {
    // The server did not take it.
    if (part.hasAttribute("data-asks")) { store((kept) => kept.removeItem(NAME)); return; }
    const key = store((kept) => kept.getItem(NAME));
    if (!key) return;
    part.querySelector("[name=page_key]").value = key;
    part.querySelector("[name=password]").required = false;
    part.hidden = true;
  });
  // `app.js` says so when it has put new content into the page.
  document.addEventListener("armed", fill);
  document.addEventListener("submit", (event) => {
    if (event.target.getAttribute("action") === "/ui/logout") store((kept) => kept.removeItem(NAME));
  });
  fill();
})();
