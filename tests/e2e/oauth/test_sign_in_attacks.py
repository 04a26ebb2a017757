"""Attacks on sign-ins: replayed and forged answers, mixed-up providers, hostile metadata, and leaks."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

import httpx

from identity_provider import IdentityProvider, ProtectedServer
from sign_ins import USER, arrive, callback_of, desk
from user import Session, at_localhost


def changed(url: str, **parameters: str | None) -> str:
    """Returns a URL with other query parameters. `None` removes one."""
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    query = {name: value for name, value in {**query, **parameters}.items() if value is not None}
    return urlunsplit(parts._replace(query=urlencode(query)))


def test_an_answer_counts_once(tmp_path: Path) -> None:
    with desk(tmp_path) as one:
        session = Session(one.gateway, USER)
        link = one.begin(session)["url"]
        answer = callback_of(link)
        first = httpx.get(answer)
        assert first.status_code == 200 and "Signed in to notes" in first.text, first.text
        again = httpx.get(answer)
        assert again.status_code == 400 and "Sign-in not found" in again.text
        assert len(one.provider.requests("token", grant_type="authorization_code")) == 1
        one.becomes("ready")


def test_a_forged_answer_changes_nothing(tmp_path: Path) -> None:
    with desk(tmp_path) as one:
        session = Session(one.gateway, USER)
        answer = callback_of(one.begin(session)["url"])
        for forged in (changed(answer, state="x" * 22), changed(answer, state=None), changed(answer, state="")):
            refused = httpx.get(forged)
            assert refused.status_code == 400, refused.text
        assert one.provider.requests("token") == []
        assert "Signed in" in httpx.get(answer).text, "the real answer still counts"


def test_a_code_of_another_flow_is_refused(tmp_path: Path) -> None:
    """A stolen code does not fit the PKCE verifier of another sign-in."""
    with desk(tmp_path) as one:
        session = Session(one.gateway, USER)
        stolen = parse_qs(urlsplit(callback_of(one.begin(session)["url"])).query)["code"][0]
        answer = changed(callback_of(one.begin(session)["url"]), code=stolen)
        refused = httpx.get(answer)
        assert refused.status_code == 400 and "did not exchange the code" in refused.text
        one.becomes("needs_sign_in")


def test_a_sign_in_ends_with_the_session_that_began_it(tmp_path: Path) -> None:
    with desk(tmp_path) as one:
        session = Session(one.gateway, USER)
        answer = callback_of(one.begin(session)["url"])
        assert session.post("/logout").status_code == 200
        refused = httpx.get(answer)
        assert refused.status_code == 403, refused.text
        assert one.provider.requests("token") == []


def test_a_sign_in_of_a_page_belongs_to_its_browser(tmp_path: Path) -> None:
    with desk(tmp_path) as one:
        one.becomes("needs_sign_in")
        session = Session(one.gateway, USER)
        base = at_localhost(one.gateway)
        cookie = {"Cookie": f"mcpproxy_session={session.secret}", "Origin": base}
        form = {"csrf": session.csrf, "page_key": session.page_key, "action": "sign_in"}
        page = httpx.post(f"{base}/ui/servers/notes", data=form, headers=cookie)
        link = re.search(r'href="([^"]+/auth\?[^"]+)"', page.text)
        assert link, page.text
        answer = callback_of(link.group(1).replace("&#38;", "&").replace("&amp;", "&"))
        bounced = httpx.get(answer)
        target = base + bounced.headers["refresh"].removeprefix("0;url=")
        assert httpx.get(target).status_code == 303, "without a session, the sign-in page"
        other = Session(one.gateway, USER)
        refused = httpx.get(target, headers={"Cookie": f"mcpproxy_session={other.secret}"})
        assert refused.status_code == 403, refused.text
        assert one.provider.requests("token") == []
        done = httpx.get(target, headers=cookie)
        assert done.status_code == 200 and "Signed in to notes" in done.text


def test_an_answer_of_another_provider_is_refused(tmp_path: Path) -> None:
    """The mix-up attack: an honest provider's code must not reach the token endpoint of a hostile one (RFC 9207)."""
    with desk(tmp_path) as one, IdentityProvider() as honest:
        for claimed in (honest.issuer, False):
            one.provider.set(iss=claimed)
            code, screen = one.login()
            assert code != 0 and "`iss`" in screen, screen
        assert one.provider.requests("token") == [], "no code was sent anywhere"
        one.becomes("needs_sign_in")
        one.provider.set(iss=True)
        one.signed_in()


def test_a_server_that_changes_its_provider_gets_no_refresh_token(tmp_path: Path) -> None:
    with desk(tmp_path, provider={"ttl": {"access": 6}}) as one, IdentityProvider() as thief:
        one.signed_in()
        one.notes.set(metadata={"authorization_servers": [thief.issuer]})
        from gateway import until

        until(lambda: one.call("read_note").get("isError"), 20, "the token expires")
        one.becomes("needs_sign_in")
        assert thief.requests("token") == []


def test_hostile_metadata(tmp_path: Path) -> None:
    with desk(tmp_path) as one, ProtectedServer(issuer=one.provider.issuer) as elsewhere:
        one.becomes("needs_sign_in")
        session = Session(one.gateway, USER)
        base = elsewhere.url.rsplit("/", 1)[0]

        def refused(**changes: object) -> str:
            one.notes.set(**{"redirect": None, "metadata": {}, **changes})
            answer = session.post("/servers/notes/login", {"page_key": session.page_key})
            assert answer.status_code == 409, answer.text
            return answer.json()["error"]["message"]

        # The metadata of another server would get a token for that server.
        assert "cannot be used" in refused(redirect=f"{base}/.well-known/oauth-protected-resource/mcp")
        assert "cannot be used" in refused(metadata={"resource": elsewhere.url})
        assert "cannot be used" in refused(metadata={"authorization_servers": ["http://169.254.169.254/"]})
        refused(metadata={"authorization_servers": ["file:///etc/passwd"]})
        one.notes.set(redirect=None, metadata={})
        one.provider.set(metadata={"issuer": "https://evil.example"})
        refused()
        for endpoint in ("javascript:alert(1)", "http://evil.example/auth", "https://user:pass@127.0.0.1/auth"):
            one.provider.set(metadata={"authorization_endpoint": endpoint})
            refused()
        one.provider.set(metadata={})
        assert session.post("/servers/notes/login", {"page_key": session.page_key}).status_code == 200


def test_no_secret_leaves_the_gateway(tmp_path: Path) -> None:
    with desk(tmp_path, provider={"ttl": {"access": 6}}) as one:
        one.signed_in()
        session = Session(one.gateway, USER)
        from gateway import until

        until(lambda: one.says("read_note") and one.refreshes() >= 1, 20, "a renewal")
        one.provider.set(down="drop")
        until(lambda: one.call("read_note").get("isError"), 20, "the token expires")
        shown = [one.refused()]
        one.provider.set(down=False)
        secrets = one.provider.secrets()
        assert len(secrets) >= 4, secrets
        cookie = {"Cookie": f"mcpproxy_session={session.secret}"}
        for path in ("/ui/", "/ui/servers", "/ui/servers/notes", "/ui/activity", "/ui/settings"):
            shown.append(httpx.get(at_localhost(one.gateway) + path, headers=cookie).text)
        for path in ("/servers", "/status", "/activity?limit=200"):
            shown.append(str(one.gateway.admin(path)))
        one.gateway.stop()
        files = [path.read_bytes() for path in one.gateway.home.rglob("*") if path.is_file()]
        for secret in secrets:
            assert not any(secret in text for text in shown)
            assert not any(secret.encode() in content for content in files)
        one.gateway.start()


def test_the_token_of_an_agent_stays_here(tmp_path: Path) -> None:
    with desk(tmp_path, notes={"leak": True}) as one:
        one.signed_in()
        received = one.says("whoami")
        assert one.gateway.token not in received and "bearer" in received.lower()
