"""Attacks on sign-ins: replayed and forged answers, mixed-up providers, hostile metadata, and leaks."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

import httpx

from identity_provider import IdentityProvider, ProtectedServer
from sign_ins import USER, arrive, callback_of, desk, redirect_path
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


def test_an_answer_of_a_provider_without_iss_is_told_apart_by_its_address(tmp_path: Path) -> None:
    """The mix-up attack on a provider that does not send `iss`: the hostile one passes the browser on to it."""
    silent = {"metadata": {"authorization_response_iss_parameter_supported": None}, "iss": False}
    with desk(tmp_path, provider=silent) as one, HostileProvider() as hostile:
        one.gateway.write_settings({"mcpServers": {"notes": {"url": one.notes.url}, "evil": {"url": hostile.url}}})
        one.becomes("needs_sign_in", "evil")
        session = Session(one.gateway, USER)

        def passed_on(**changes: str) -> tuple[str, dict[str, str]]:
            """The page of the honest provider that the hostile one sends the browser to."""
            honest = one.begin(session, "notes")["url"]
            own = {name: values[0] for name, values in parse_qs(urlsplit(one.begin(session, "evil")["url"]).query).items()}
            changes = {name: own[value] for name, value in changes.items()}
            return changed(honest, state=own["state"], code_challenge=own["code_challenge"], **changes), own

        link, own = passed_on()
        answer = callback_of(link)
        assert urlsplit(answer).path == redirect_path(one.provider.issuer)
        assert urlsplit(own["redirect_uri"]).path == redirect_path(hostile.base)
        refused = httpx.get(answer)
        assert refused.status_code == 400 and "address of another provider" in refused.text, refused.text
        assert hostile.received == [], "no code was sent to the hostile provider"
        assert any("another provider" in record["message"] for record in one.records("server_sign_in_failed"))

        # The honest provider does not know the redirect URI of the hostile one.
        link, _ = passed_on(redirect_uri="redirect_uri")
        assert arrive(link).status_code == 400 and hostile.received == []
        one.signed_in()


class HostileProvider:
    """An MCP server and its own provider, without `iss`. It keeps what arrives at its token endpoint."""

    def __enter__(self) -> HostileProvider:
        self.received: list[dict[str, list[str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def answer(self, status: int, body: dict[str, object], **headers: str) -> None:
                text = json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"content-type": "application/json", "content-length": str(len(text)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            def do_GET(self) -> None:  # noqa: N802
                base = outer.base
                if "oauth-protected-resource" in self.path:
                    self.answer(200, {"resource": f"{base}/mcp", "authorization_servers": [base]})
                elif "well-known" in self.path:
                    self.answer(200, {
                        "issuer": base, "authorization_endpoint": f"{base}/auth", "token_endpoint": f"{base}/token",
                        "registration_endpoint": f"{base}/register", "response_types_supported": ["code"],
                        "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": ["none"],
                    })
                else:
                    self.answer(404, {})

            def do_POST(self) -> None:  # noqa: N802
                body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
                if self.path == "/register":
                    self.answer(201, {**json.loads(body), "client_id": "of the hostile provider"})
                elif self.path == "/token":
                    outer.received.append(parse_qs(body))
                    self.answer(400, {"error": "invalid_grant"})
                elif self.path == "/moved":
                    self.answer(307, {}, location=f"{outer.base}/token")
                else:
                    metadata = f"{outer.base}/.well-known/oauth-protected-resource/mcp"
                    self.answer(401, {}, **{"www-authenticate": f'Bearer resource_metadata="{metadata}"'})

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.base = f"http://127.0.0.1:{self.server.server_port}"
        self.url = f"{self.base}/mcp"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def test_a_token_endpoint_that_redirects_gets_no_further(tmp_path: Path) -> None:
    with desk(tmp_path) as one, HostileProvider() as hostile:
        one.provider.set(metadata={"token_endpoint": f"{hostile.base}/moved"})
        code, screen = one.login()
        assert code != 0 and "did not exchange the code" in screen, screen
        assert hostile.received == [], "the code did not follow the redirect"


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

        # Metadata at another host is not the server's own, although it names the server.
        elsewhere.set(metadata={"resource": one.notes.url})
        assert "cannot be used" in refused(redirect=f"{base}/.well-known/oauth-protected-resource/mcp")
        # The metadata of another server would get a token for that server.
        assert "cannot be used" in refused(metadata={"resource": elsewhere.url})
        assert "cannot be used" in refused(metadata={"authorization_servers": ["https://169.254.169.254/"]})
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
