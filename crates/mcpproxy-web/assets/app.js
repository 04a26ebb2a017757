// Makes pages live: countdowns, changes as they happen, passkeys. Every page works without it.
(() => {
  "use strict";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const said = document.getElementById("said");
  const say = (text) => { if (said) said.textContent = text; };

  // Countdowns. The server rendered the time; this keeps it true.
  const words = (ms) => {
    const s = Math.max(0, Math.floor(ms / 1000));
    if (s >= 5400) return "in " + Math.round(s / 3600) + " hours";
    if (s >= 600) return "in " + Math.round(s / 60) + " minutes";
    return "in " + Math.floor(s / 60) + ":" + String(s % 60).padStart(2, "0");
  };
  // It counts from what was left when the page came: clocks of browsers are wrong.
  const came = new WeakMap();
  const tick = () => all("[data-left]").forEach((time) => {
    if (!came.has(time)) came.set(time, Date.now());
    const left = Number(time.dataset.left) - (Date.now() - came.get(time));
    time.textContent = left > 0 ? words(left) : "now";
    const state = time.closest(".state");
    if (state) state.classList.toggle("soon", left < 60000);
  });

  // Ages grow as the server words them. They count from the time of the page, too.
  const skew = document.body.dataset.now ? Number(document.body.dataset.now) - Date.now() : 0;
  const AGE = /^(just now|\d+ (second|minute|hour|day)s? ago)$/;
  const age = (ms) => {
    const s = Math.floor(ms / 1000);
    const some = (count, unit) => count + " " + unit + (count === 1 ? "" : "s") + " ago";
    if (s < 2) return "just now";
    if (s < 90) return some(s, "second");
    if (s < 3570) return some(Math.floor((s + 30) / 60), "minute");
    if (s < 129600) return some(Math.floor((s + 1800) / 3600), "hour");
    return some(Math.floor((s + 43200) / 86400), "day");
  };
  const grow = () => all("time[datetime]:not([data-clock]):not([data-left])").forEach((time) => {
    const at = Date.parse(time.dateTime);
    if (isNaN(at) || !AGE.test(time.textContent)) return;
    const words = age(Date.now() + skew - at);
    if (time.textContent !== words) time.textContent = words;
  });

  // Times in the zone of the viewer. The exact time is in the title.
  const zone = (root) => all("time[datetime]", root).forEach((time) => {
    const at = new Date(time.dateTime);
    if (isNaN(at)) return;
    time.title = at.toLocaleString([], { dateStyle: "full", timeStyle: "long" });
    if (!time.hasAttribute("data-clock")) return;
    const now = new Date(Date.now() + skew);
    const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
    const day = at.toDateString() === now.toDateString() ? {} : { day: "numeric", month: "short" };
    const year = at.getFullYear() === now.getFullYear() ? {} : { year: "numeric" };
    time.textContent = at.toLocaleString([], { ...year, ...day, ...clock });
  });
  // The zone is said once, below the page.
  const where = () => all("[data-zone]").forEach((note) => {
    const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
    if (!name || name === "UTC") return;
    const minutes = -new Date().getTimezoneOffset();
    const two = (number) => String(number).padStart(2, "0");
    const offset = two(Math.floor(Math.abs(minutes) / 60)) + ":" + two(Math.abs(minutes) % 60);
    note.textContent = `Times are in your time zone, ${name.replace(/_/g, " ")} (UTC${minutes < 0 ? "−" : "+"}${offset}).`;
  });

  // A yes that was meant for something else: buttons that appear under a finger wait a second.
  const arm = (root) => {
    all("[data-wait]", root).forEach((button) => {
      button.disabled = true;
      setTimeout(() => { button.disabled = false; }, 1000);
    });
    const can = !!(window.PublicKeyCredential && navigator.credentials);
    all("[data-passkey]", root).forEach((button) => { button.hidden = !can; });
    all("[data-needs-script]", root).forEach((button) => { button.disabled = !can; });
    all("[data-no-script]", root).forEach((hint) => { hint.hidden = can; });
    all("[data-script]", root).forEach((hint) => { hint.hidden = false; });
    // Enter is a no, and Space goes down the page as it does on any other: who reads on has not decided.
    const [told, first] = [root.querySelector("[autofocus]"), root.querySelector("[data-first]")];
    if (told) {
      told.focus();
    } else if (first && (!document.activeElement || document.activeElement === document.body)) {
      first.focus({ preventScroll: true });
      first.addEventListener("keydown", (event) => {
        if (event.key !== " " || !first.isConnected) return;
        event.preventDefault();
        first.blur();
        scrollBy(0, innerHeight * 0.9);
      }, { once: true });
    }
    // A reload repeats no form.
    all("[data-reload]", root).forEach((one) => history.replaceState(null, "", one.dataset.reload));
    tick();
    zone(root);
    offer(root);
    document.dispatchEvent(new Event("armed"));
  };

  // Copying, where the browser allows it: over HTTPS, and on this machine.
  const offer = (root) => all("[data-copy]", root).forEach((source) => {
    if (!navigator.clipboard || (source.nextElementSibling && source.nextElementSibling.matches(".copy"))) return;
    const [button, word, what] = ["button", "span", "span"].map((name) => document.createElement(name));
    button.type = "button";
    button.className = "btn small copy";
    word.textContent = "Copy";
    what.className = "sr";
    what.textContent = " " + source.dataset.copy;
    button.append(word, what);
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(source.textContent.trim());
        word.textContent = "Copied";
      } catch { word.textContent = "Not copied"; }
      say(word.textContent + what.textContent);
      setTimeout(() => { word.textContent = "Copy"; }, 2000);
    });
    source.after(button);
  });

  // Changes: fetch this page again and take what differs. What somebody is typing stays.
  let busy = false, again = false;
  const refresh = async () => {
    if (busy || document.hidden) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", redirect: "manual" });
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      document.title = page.title;
      const fresh = all("[data-pending]", page);
      all("[data-pending]").forEach((count, at) => { if (fresh[at]) count.replaceWith(fresh[at]); });
      const [main, next] = [document.getElementById("main"), page.getElementById("main")];
      if (main && next && main.dataset.key !== next.dataset.key) {
        const held = document.activeElement && main.contains(document.activeElement);
        main.replaceWith(next);
        if (held) next.focus({ preventScroll: true });
        arm(next);
        const heading = next.querySelector(".over h2") || next.querySelector("h1");
        say("Updated. " + (heading ? heading.textContent.trim() : ""));
      } else if (main && next) {
        all("[data-part]", next).forEach((part) => {
          const old = document.getElementById(part.id);
          if (!old || old.dataset.key === part.dataset.key || old.contains(document.activeElement)) return;
          old.replaceWith(part);
          arm(part);
        });
      }
    } catch { /* the next change tries again */ } finally {
      busy = false;
      if (again && !document.hidden) { again = false; refresh(); }
    }
  };
  document.addEventListener("visibilitychange", () => { if (again && !document.hidden) { again = false; refresh(); } });

  // A tab that nobody touches must not keep its session alive: after a while it stops listening.
  const IDLE = Number(document.body.dataset.idle || 900) * 14 / 15 * 1000;
  let source = null, touched = Date.now(), timer = 0;
  const listen = () => {
    const path = document.body.dataset.live;
    if (!path || source) return;
    source = new EventSource(path);
    source.addEventListener("change", () => { clearTimeout(timer); timer = setTimeout(refresh, 60); });
    source.onerror = () => { if (source && source.readyState === 2) { source = null; } };
  };
  const touch = () => {
    touched = Date.now();
    if (!source && document.body.dataset.live) { listen(); refresh(); }
  };
  ["pointerdown", "keydown", "focus"].forEach((name) => addEventListener(name, touch, { passive: true }));
  setInterval(() => {
    tick();
    grow();
    if (source && Date.now() - touched > IDLE) { source.close(); source = null; }
  }, 1000);

  // Passkeys: bytes travel as base64url.
  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  const post = async (path, fields) => {
    const answer = await fetch(path, { method: "POST", credentials: "same-origin", body: new URLSearchParams(fields) });
    const body = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error((body.error && body.error.message) || "The request failed. Reload the page and try again.");
    return body;
  };
  const fail = (form, error) => {
    let note = form.querySelector(".note");
    if (!note) {
      note = document.createElement("p");
      note.className = "note bad";
      note.setAttribute("role", "alert");
      form.append(note);
    }
    note.textContent = error.name === "NotAllowedError" ? "No passkey was used. Try again, or use a code." : error.message;
  };
  const get = async (form) => {
    const csrf = form.elements.csrf.value;
    const { publicKey } = await post(form.dataset.factor, { csrf, for: form.getAttribute("action") });
    publicKey.challenge = bytes(publicKey.challenge);
    (publicKey.allowCredentials || []).forEach((one) => { one.id = bytes(one.id); });
    const got = await navigator.credentials.get({ publicKey });
    const { authenticatorData, clientDataJSON, signature, userHandle } = got.response;
    return JSON.stringify({
      id: got.id, rawId: text(got.rawId), type: got.type, extensions: got.getClientExtensionResults(),
      response: {
        authenticatorData: text(authenticatorData), clientDataJSON: text(clientDataJSON), signature: text(signature),
        userHandle: userHandle ? text(userHandle) : null,
      },
    });
  };
  const make = async (form) => {
    const { csrf, totp, page_key, password } = form.elements;
    const there = page_key ? { page_key: page_key.value, password: password.value } : {};
    const code = totp ? totp.value.trim() : "";
    const passkey = !code && form.dataset.factor ? await get(form) : "";
    const { publicKey } = await post(form.dataset.newPasskey, { csrf: csrf.value, totp: code, passkey, ...there });
    publicKey.challenge = bytes(publicKey.challenge);
    publicKey.user.id = bytes(publicKey.user.id);
    (publicKey.excludeCredentials || []).forEach((one) => { one.id = bytes(one.id); });
    const made = await navigator.credentials.create({ publicKey });
    return JSON.stringify({
      id: made.id, rawId: text(made.rawId), type: made.type, extensions: made.getClientExtensionResults(),
      response: { attestationObject: text(made.response.attestationObject), clientDataJSON: text(made.response.clientDataJSON) },
    });
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-passkey]");
    if (!button) return;
    const form = button.form;
    button.disabled = true;
    try {
      form.elements.passkey.value = await get(form);
      form.submit();
    } catch (error) { fail(form, error); button.disabled = false; }
  });
  document.addEventListener("submit", async (event) => {
    const form = event.target.closest("[data-new-passkey]");
    if (!form) return;
    event.preventDefault();
    try {
      form.elements.credential.value = await make(form);
      form.submit();
    } catch (error) { fail(form, error); }
  });

  // A menu closes when something else is meant.
  document.addEventListener("click", (event) => all("details.nav-menu[open], details.export[open]").forEach((menu) => {
    if (!menu.contains(event.target)) menu.open = false;
  }));
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector("details.nav-menu[open], details.export[open]");
    if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
  });

  arm(document);
  where();
  listen();
})();
