"""Users of an identity provider, recovery codes, and accounts that the operator invites or resets."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from gateway import Gateway, until
from identity_provider import IdentityProvider
from office import SHOTS
from typist import typed
from user import PASSWORD, Browser, Session, Totp, User, at_localhost, secret_on, set_up_plainly, setup_link
from wire import MODERN, Wire

SECONDS = 15
CALLBACK = "/ui/sign-in/oidc/callback"
SECRET = "a secret of the gateway"
ADA, BOB = "ada@example.com", "bob@example.com"
LOOKS = {"light": (1200, "light"), "dark": (1200, "dark"), "390": (390, "light")}


@dataclass
class House:
    """A gateway, and the identity provider of its users."""

    gateway: Gateway
    provider: IdentityProvider
    settings: dict[str, Any]

    def refusals(self) -> list[str]:
        """Returns the reasons of refused sign-ins and step-ups, newest first."""
        found = self.gateway.admin("/activity?type=auth&status=refused&limit=100")["activities"]
        return [one["metadata"].get("reason", "") for one in found]

    def refused(self, reason: str, number: int = 1) -> None:
        """Waits for so many refusals, and checks the newest. They reach the log soon after the answer."""
        found = until(lambda: len(listed := self.refusals()) >= number and listed, SECONDS, f"refusal {number}: {reason}")
        assert reason in found[0], found

    def records(self, *wanted: str) -> None:
        """Waits until the log has records with these codes."""
        what = f"records with the codes {wanted}"
        until(lambda: set(wanted) <= set(self.codes()), SECONDS, what)

    def codes(self) -> list[str]:
        return [one["code"] for one in self.gateway.admin("/activity?type=auth&limit=100")["activities"]]

    def begin(self, http: httpx.Client, next_page: str = "/ui/approvals") -> str:
        """Signs in at the provider with plain requests. Returns the address with which the user comes back."""
        start = http.get(f"{at_localhost(self.gateway)}/ui/sign-in/oidc", params={"next": next_page})
        assert start.status_code == 303, start.text
        location = start.headers["location"]
        while not location.startswith(at_localhost(self.gateway)):
            answer = http.get(location if location.startswith("http") else self.provider.issuer + location)
            assert answer.status_code in (302, 303), f"{answer.status_code} {answer.text}"
            location = answer.headers["location"]
        return location


@contextmanager
def house(folder: Path, *, oidc: dict[str, Any] | None = None, wait: str = "30s") -> Iterator[House]:
    """Starts the provider on another host than the gateway, so that cookies of one site do not reach the other."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    client = {
        "client_id": "gate",
        "client_secret": SECRET,
        "redirect_uris": [f"http://localhost:{port}{CALLBACK}"],
        "grant_types": ["authorization_code"],
        "response_types": ["code"],
    }
    with IdentityProvider(clients=[client]) as provider:
        settings = {
            "mcpServers": {"demo": {"type": "demo"}},
            "approvals": {"wait": wait},
            "contracts": {"weakening": "apply"},
            "people": {
                "oidc": {
                    "issuer": provider.issuer,
                    "client_id": "gate",
                    "client_secret": "${env:OIDC_SECRET}",
                    "scopes": ["groups"],
                    "name": "Test SSO",
                    "allowed": {"emails": [ADA]},
                    **(oidc or {}),
                },
            },
        }
        gateway = Gateway(folder / "home", settings)
        gateway.listen = f"127.0.0.1:{port}"
        gateway.start(OIDC_SECRET=SECRET)
        try:
            yield House(gateway, provider, settings)
        except BaseException:
            print(gateway.words())
            raise
        finally:
            gateway.stop()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house whose first user is the local user `root`."""
    with house(tmp_path_factory.mktemp("people")) as one:
        set_up_plainly(one.gateway, "root")
        yield one


@pytest.fixture(autouse=True)
def _honest(request: pytest.FixtureRequest) -> Iterator[None]:
    """Takes back what a test made the shared provider do."""
    yield
    if "shared" in request.fixturenames:
        request.getfixturevalue("shared").provider.set(
            user="ada", login="auto", iss=True, id_token={}, metadata={}, down=False
        )


def signs_in(user: User) -> None:
    user.open("/ui/login")
    user.do("follow", link="continue with test sso")


def pictures(user: User, name: str) -> None:
    for look, (width, scheme) in LOOKS.items():
        user.do("resize", width=width)
        user.do("theme", scheme=scheme)
        assert not user.is_too_wide(), f"{name} {look}"
        user.screenshot(SHOTS / look / f"people-{name}.png")
    user.do("resize", width=1100)
    user.do("theme", scheme="light")


def complaints(user: User) -> list[str]:
    """Returns what the browser complained about, without refusals that the test expects."""
    return [one for one in user.look()["complaints"] if not one.startswith("Failed to load resource")]


# -- signing in -------------------------------------------------------------------------------------------------


def test_the_first_user_needs_the_setup_link(tmp_path: Path, browser: Browser) -> None:
    with house(tmp_path) as one, User(browser, one.gateway) as ada:
        signs_in(ada)
        ada.sees("open the setup link first")
        one.refused("the first user needs the setup link")
        ada.open(setup_link(one.gateway))
        pictures(ada, "setup")
        ada.do("follow", link="continue with test sso")
        until(lambda: ada.url.endswith("/ui/approvals"), SECONDS, "the page after signing in")
        assert ada.page_key(), "the page key arrived"
        assert complaints(ada) == []
        users = json.loads(one.gateway.run("users", "list", "-o", "json").stdout)["users"]
        assert [(user["name"], user["kind"], user["second_factor"]) for user in users] == [(ADA, "provider", True)]
        one.records("user_created", "login")
        # The link works once, also for a user of the provider.
        assert httpx.get(re.sub("localhost", "127.0.0.1", setup_link(one.gateway))).status_code == 404


def test_a_user_signs_in_and_out(shared: House, browser: Browser) -> None:
    with User(browser, shared.gateway) as ada:
        ada.open("/ui/login?next=/ui/settings")
        pictures(ada, "login")
        ada.do("follow", link="continue with test sso")
        until(lambda: ada.url.endswith("/ui/settings"), SECONDS, "the page that was wanted")
        assert re.search(rf"{ADA}.*you", ada.text) and "identity provider" in ada.text
        pictures(ada, "settings")
        ada.open("/ui/account")
        assert "with Test SSO" in ada.text and "Authenticator app" not in ada.text
        pictures(ada, "account-provider")
        ada.do("press", button="^sign out$")
        ada.sees("you are signed out here")
        ada.do("follow", link="sign out of test sso")
        assert "/session/end" in ada.url
        ada.open("/ui/approvals")
        assert "/ui/login" in ada.url
        assert complaints(ada) == []


def test_without_javascript(shared: House, browser: Browser) -> None:
    with User(browser, shared.gateway, javascript=False) as ada:
        signs_in(ada)
        until(lambda: "/ui/approvals" in ada.url, SECONDS, "signed in")


def test_a_user_who_is_not_allowed(shared: House, browser: Browser) -> None:
    shared.provider.set(user="bob")
    with User(browser, shared.gateway) as bob:
        signs_in(bob)
        bob.sees("you may not sign in here")
        pictures(bob, "not-allowed")
        bob.open("/ui/approvals")
        assert "/ui/login" in bob.url
    (newest, *_) = shared.gateway.admin("/activity?type=auth&status=refused&limit=1")["activities"]
    assert newest["code"] == "login_refused" and newest["metadata"]["email"] == BOB
    assert "not allowed" in newest["metadata"]["reason"]


def test_an_address_that_is_not_verified_does_not_count(tmp_path: Path) -> None:
    with house(tmp_path) as one, httpx.Client() as http:
        set_up_plainly(one.gateway, "root")
        one.provider.set(users={"ada": {"email": ADA, "email_verified": False}})
        answer = http.get(one.begin(http))
        assert answer.status_code == 403 and "may not sign in here" in answer.text


def test_a_user_who_left_the_group_is_signed_out(tmp_path: Path, browser: Browser) -> None:
    with house(tmp_path, oidc={"allowed": {"groups": ["staff"]}}) as one, User(browser, one.gateway) as ada:
        set_up_plainly(one.gateway, "root")
        signs_in(ada)
        until(lambda: ada.url.endswith("/ui/approvals"), SECONDS, "signed in")
        one.provider.set(users={"ada": {"email": ADA, "email_verified": True, "groups": ["guests"]}})
        ada.open("/ui/account")
        assert "staff" in ada.text, "the session goes on until the next check"
        with User(browser, one.gateway) as elsewhere:
            signs_in(elsewhere)
            elsewhere.sees("you may not sign in here")
        ada.open("/ui/account")
        assert "/ui/login" in ada.url, "all sessions have ended"


def test_a_user_who_is_no_longer_in_the_settings_is_signed_out(tmp_path: Path, browser: Browser) -> None:
    with house(tmp_path) as one, User(browser, one.gateway) as ada:
        set_up_plainly(one.gateway, "root")
        signs_in(ada)
        until(lambda: ada.url.endswith("/ui/approvals"), SECONDS, "signed in")
        one.settings["people"]["oidc"]["allowed"] = {"emails": [BOB]}
        one.gateway.write_settings(one.settings)

        def is_out() -> bool:
            ada.open("/ui/account")
            return "/ui/login" in ada.url

        until(is_out, SECONDS, "signed out after the reload")


def test_passwords_can_be_switched_off(tmp_path: Path, browser: Browser) -> None:
    with house(tmp_path) as one, User(browser, one.gateway) as ada:
        set_up_plainly(one.gateway, "root")
        session = Session(one.gateway, "root")
        one.settings["people"]["password"] = False
        one.gateway.write_settings(one.settings)
        until(lambda: session.get("/approvals").status_code == 401, SECONDS, "the session of the local user ended")
        refused = httpx.post(f"{one.gateway.base}/api/v1/login", json={"name": "root", "password": PASSWORD})
        assert refused.status_code == 403 and refused.json()["error"]["code"] == "password_off"
        ada.open("/ui/login")
        assert "Password" not in ada.text and "Continue with Test SSO" in ada.text
        signs_in(ada)
        until(lambda: ada.url.endswith("/ui/approvals"), SECONDS, "signed in")


def test_names_do_not_merge_accounts(tmp_path: Path) -> None:
    with house(tmp_path) as one, httpx.Client() as http:
        set_up_plainly(one.gateway, ADA)
        answer = http.get(one.begin(http))
        assert answer.status_code == 200 and "You are signed in" in answer.text
        users = json.loads(one.gateway.run("users", "list", "-o", "json").stdout)["users"]
        assert {(user["name"], user["kind"]) for user in users} == {(ADA, "local"), (f"{ADA}-2", "provider")}
        Session(one.gateway, ADA)  # The password of the local user still works.


# -- attacks ----------------------------------------------------------------------------------------------------


def test_an_answer_counts_once_and_in_its_own_browser(shared: House) -> None:
    with httpx.Client() as http, httpx.Client() as stranger:
        back = shared.begin(http)
        assert stranger.get(back).status_code == 400, "another browser"
        wrong = back.replace("state=", "state=x")
        assert http.get(wrong).status_code == 400, "another state"
        done = http.get(back)
        assert done.status_code == 200 and "mcpproxy_session" in done.headers["set-cookie"]
        assert "SameSite=Strict" in done.headers["set-cookie"]
        assert http.get(back).status_code == 400, "used"
        # The code of the first sign-in with the state of a second one.
        (code,) = parse_qs(urlsplit(back).query)["code"]
        http.cookies.clear()
        again = re.sub("code=[^&]*", f"code={code}", shared.begin(http))
        replayed = http.get(again)
        assert replayed.status_code == 400 and "did not accept the code" in replayed.text
    reason = "the provider did not accept the code"
    until(lambda: reason in shared.refusals(), SECONDS, reason)


WRONG_ID_TOKENS = [
    ({"nonce": "of another sign-in"}, "another nonce"),
    ({"nonce": None}, "another nonce"),
    ({"iss": "http://127.0.0.1:1"}, "another issuer"),
    ({"aud": "another client"}, "another audience"),
    ({"aud": ["gate", "other"]}, "another client"),
    ({"azp": "other"}, "another client"),
    ({"exp": 1}, "expired"),
    ({"sub": None}, "subject"),
]


# The log takes a few records about refused sign-ins in a minute, so each half has a gateway of its own.
@pytest.mark.parametrize("wrong", [WRONG_ID_TOKENS[:4], WRONG_ID_TOKENS[4:]], ids=["sign-in", "token"])
def test_id_tokens_of_another_sign_in(tmp_path: Path, wrong: list[tuple[dict[str, Any], str]]) -> None:
    with house(tmp_path) as one, httpx.Client() as http:
        set_up_plainly(one.gateway, "root")
        for number, (claims, reason) in enumerate(wrong, 1):
            one.provider.set(id_token=claims)
            answer = http.get(one.begin(http))
            assert answer.status_code == 400 and "mcpproxy_session" not in answer.headers.get("set-cookie", "")
            one.refused(reason, number)
        # A flood does not fill the log.
        for _ in range(20):
            assert http.get(f"{at_localhost(one.gateway)}{CALLBACK}?state=guess&code=a").status_code == 400
        assert len(one.refusals()) <= 6


def test_an_answer_of_another_issuer(shared: House) -> None:
    with httpx.Client() as http:
        shared.provider.set(iss="http://127.0.0.1:1")
        assert http.get(shared.begin(http)).status_code == 400
        # The provider promises `iss`, so an answer without it comes from elsewhere.
        shared.provider.set(iss=False)
        assert http.get(shared.begin(http)).status_code == 400
        shared.provider.set(iss=True)
        assert http.get(shared.begin(http)).status_code == 200


def test_the_way_back_stays_inside(shared: House) -> None:
    for bad in ["https://evil.example/", "//evil.example", "/ui/../x", "/ui/login"]:
        with httpx.Client() as http:
            answer = http.get(shared.begin(http, bad))
            assert 'url=/ui/approvals#key=page_' in answer.text, bad


def test_pkce_and_nonce_are_sent(shared: House) -> None:
    with httpx.Client() as http:
        shared.begin(http)
    sent = shared.provider.requests("authorization")[-1]["params"]
    assert sent["code_challenge_method"] == "S256" and len(sent["code_challenge"]) == 43
    assert len(sent["nonce"]) == 64 and len(sent["state"]) == 64 and sent["scope"] == "openid profile email groups"
    assert "prompt" not in sent and "max_age" not in sent


def test_a_provider_that_is_down(tmp_path: Path, browser: Browser) -> None:
    with house(tmp_path) as one, User(browser, one.gateway, "root") as root:
        set_up_plainly(one.gateway, "root")
        one.provider.set(down=True)
        root.open("/ui/login")
        root.do("follow", link="continue with test sso")
        root.sees("the identity provider does not answer")
        pictures(root, "down")
        root.do("follow", link="back to sign in")
        root.sign_in()
        until(lambda: "/ui/approvals" in root.url, SECONDS, "the password still works")
        one.provider.set(down=False)
    with house(tmp_path / "later") as one, httpx.Client() as http:
        set_up_plainly(one.gateway, "root")
        back = one.begin(http)
        one.provider.set(down=True)
        assert http.get(back).status_code == 503, "down between the sign-in and the code"


def test_a_user_cancels_at_the_provider(shared: House, browser: Browser) -> None:
    shared.provider.set(login="deny")
    with User(browser, shared.gateway) as ada:
        signs_in(ada)
        ada.sees("access_denied")


# -- step-up ----------------------------------------------------------------------------------------------------


def asks(one: House) -> tuple[Wire, dict[str, Any], str]:
    """Makes a critical call, which waits for a user with a second factor."""
    wire = Wire(one.gateway.mcp, one.gateway.token, MODERN)
    user_id = f"u_max_{time.time_ns()}"
    arguments = {"name": "demo:delete_user", "args": {"userId": user_id}, "intent_reason": "Max has left"}
    call = {"name": "call_tool_destructive", "arguments": arguments}
    error = wire.ask("tools/call", call)["structuredContent"]["error"]
    return wire, call, error["details"]["approval_id"]


@pytest.fixture(scope="module")
def critical(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house where calls do not wait, and bob may sign in, too."""
    with house(tmp_path_factory.mktemp("critical"), oidc={"allowed": {"emails": [ADA, BOB]}}, wait="0s") as one:
        set_up_plainly(one.gateway, "root")
        yield one


def test_a_step_up_at_the_provider_approves_one_call(critical: House, browser: Browser) -> None:
    critical.provider.set(id_token={}, user="ada")
    _, _, other = asks(critical)
    wire, call, approval = asks(critical)
    with User(browser, critical.gateway) as ada:
        signs_in(ada)
        until(lambda: ada.url.endswith("/ui/approvals"), SECONDS, "signed in")
        ada.open(f"/ui/approvals/{approval}")
        assert not any(button["name"] == "Approve once" for button in ada.do("buttons"))
        pictures(ada, "step-up")
        ada.do("press", button="^confirm with test sso$")
        ada.sees("confirmed with test sso")
        sent = critical.provider.requests("authorization")[-1]["params"]
        # The provider turns `max_age=0` into `prompt=login`.
        assert sent["prompt"] == "login"
        pictures(ada, "stepped-up")
        proof = re.search(r'name="provider_proof" value="(\w+)"', ada.do("html"))
        assert proof
        # The confirmation is for this request alone.
        ada.open(f"/ui/approvals/{other}?proof={proof.group(1)}&for={other}")
        ada.do("press", button="^approve once$")
        ada.sees("already used or has expired")
        ada.open(f"/ui/approvals/{approval}?proof={proof.group(1)}&for={approval}")
        ada.do("press", button="^approve once$")
        until(lambda: critical.gateway.admin(f"/approvals/{approval}")["state"] == "approved", SECONDS, "approved")
        assert complaints(ada) == []
    call["arguments"]["approval_id"] = approval
    assert "approval" not in json.dumps(wire.ask("tools/call", call).get("structuredContent", {}).get("error", {}))
    assert critical.gateway.admin(f"/approvals/{approval}")["state"] == "consumed"
    assert critical.gateway.admin(f"/approvals/{other}")["state"] == "pending"
    critical.records("step_up")


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"auth_time": int(time.time()) - 3600}, "did not ask you to authenticate again"),
        ({"auth_time": None}, "does not say when you authenticated"),
    ],
)
def test_an_old_authentication_confirms_nothing(
    critical: House, browser: Browser, claims: dict[str, Any], message: str
) -> None:
    critical.provider.set(id_token={}, user="ada")
    _, _, approval = asks(critical)
    with User(browser, critical.gateway) as ada:
        signs_in(ada)
        until(lambda: ada.url.endswith("/ui/approvals"), SECONDS, "signed in")
        ada.open(f"/ui/approvals/{approval}")
        critical.provider.set(id_token=claims)
        ada.do("press", button="^confirm with test sso$")
        ada.sees(message)
        ada.open(f"/ui/approvals/{approval}")
        assert not any(button["name"] == "Approve once" for button in ada.do("buttons"))
    assert critical.gateway.admin(f"/approvals/{approval}")["state"] == "pending"
    critical.records("step_up_failed")


def test_another_user_confirms_nothing(critical: House, browser: Browser) -> None:
    critical.provider.set(id_token={}, user="bob")
    _, _, approval = asks(critical)
    with User(browser, critical.gateway) as bob, User(browser, critical.gateway) as ada:
        signs_in(bob)
        until(lambda: bob.url.endswith("/ui/approvals"), SECONDS, "bob has an account")
        critical.provider.set(user="ada")
        signs_in(ada)
        until(lambda: ada.url.endswith("/ui/approvals"), SECONDS, "signed in")
        ada.open(f"/ui/approvals/{approval}")
        critical.provider.set(user="bob")
        ada.do("press", button="^confirm with test sso$")
        ada.sees("nothing was confirmed")
    critical.provider.set(user="ada")


def test_the_required_context(tmp_path: Path, browser: Browser) -> None:
    with house(tmp_path, oidc={"acr": "urn:mfa"}, wait="0s") as one, User(browser, one.gateway) as ada:
        set_up_plainly(one.gateway, "root")
        signs_in(ada)
        until(lambda: ada.url.endswith("/ui/approvals"), SECONDS, "a sign-in needs no context")
        _, _, approval = asks(one)
        ada.open(f"/ui/approvals/{approval}")
        ada.do("press", button="^confirm with test sso$")
        ada.sees("people.oidc.acr")
        assert one.provider.requests("authorization")[-1]["params"]["acr_values"] == "urn:mfa"
        one.provider.set(id_token={"acr": "urn:mfa"})
        ada.open(f"/ui/approvals/{approval}")
        ada.do("press", button="^confirm with test sso$")
        ada.sees("confirmed with test sso")


def test_users_of_the_provider_approve_other_calls_with_the_page_key(critical: House, browser: Browser) -> None:
    critical.provider.set(id_token={}, user="ada")
    wire = Wire(critical.gateway.mcp, critical.gateway.token, MODERN)
    args = {"projectId": "p_website", "status": "on_hold"}
    call = {"name": "call_tool_write", "arguments": {"name": "demo:change_project_status", "args": args}}
    approval = wire.ask("tools/call", call)["structuredContent"]["error"]["details"]["approval_id"]
    with User(browser, critical.gateway) as ada:
        signs_in(ada)
        until(lambda: ada.url.endswith("/ui/approvals"), SECONDS, "signed in")
        ada.open(f"/ui/approvals/{approval}")
        ada.do("press", button="^approve once$")
        until(lambda: critical.gateway.admin(f"/approvals/{approval}")["state"] == "approved", SECONDS, "approved")


def test_only_admins_manage_users(tmp_path: Path, browser: Browser) -> None:
    oidc = {"allowed": {"emails": [ADA, BOB]}, "admins": {"groups": ["mcp-admins"]}}
    with house(tmp_path, oidc=oidc) as one, User(browser, one.gateway) as ada, User(browser, one.gateway) as bob:
        set_up_plainly(one.gateway, "root")
        one.provider.set(user="bob")
        signs_in(bob)
        until(lambda: bob.url.endswith("/ui/approvals"), SECONDS, "signed in")
        bob.open("/ui/account")
        assert "people.oidc.admins" in bob.text and "Invite an approver" not in bob.text
        one.provider.set(user="ada")
        signs_in(ada)
        until(lambda: ada.url.endswith("/ui/approvals"), SECONDS, "signed in")
        ada.open("/ui/account")
        ada.do("press", region="invite an approver", button="^confirm with test sso$")
        ada.sees("confirmed with test sso")
        ada.do("press", region="invite an approver", button="^create invitation link$")
        ada.sees("send this link to one person")


# -- recovery codes, invitations and resets ---------------------------------------------------------------------


def test_a_recovery_code_replaces_a_lost_app(tmp_path: Path, browser: Browser) -> None:
    with Gateway(tmp_path) as gateway, User(browser, gateway) as ada:
        ada.set_up(setup_link(gateway))
        codes = re.findall(r"^[0-9a-z]{4}(?:-[0-9a-z]{4}){3}$", ada.text, re.MULTILINE)
        assert len(codes) == 10
        pictures(ada, "recovery-codes")
        ada.do("follow", link="i have saved them")
        ada.sees("no calls yet")
        ada.open("/ui/account")
        assert "10 left" in ada.text and codes[0] not in ada.text
        pictures(ada, "account-local")
        # The phone is lost.
        ada.do("follow", link="replace the app")
        lost = ada.totp
        ada.totp = Totp(secret_on(ada.do("html")))
        assert lost and ada.totp.key != lost.key
        ada.do("fill", field="code", value=ada.totp.code())
        ada.do("evaluate", script="document.querySelector('#totp-h').closest('section').querySelector('details').open = true")
        ada.do("fill", region="authenticator app", field="recovery", value=codes[3])
        ada.do("press", button="^use the new app$")
        ada.sees("the authenticator app is set up")
        assert "9 left" in ada.text
        used = gateway.admin("/activity?type=auth&limit=20")["activities"]
        assert any(one["code"] == "recovery_code_used" and one["metadata"]["left"] == 9 for one in used)
        assert complaints(ada) == []


def test_the_operator_resets_an_account(tmp_path: Path, browser: Browser) -> None:
    with Gateway(tmp_path) as gateway, User(browser, gateway) as ada:
        ada.set_up(setup_link(gateway))
        # A program without a terminal cannot, whatever it sends.
        plain = gateway.run("users", "reset", "ada")
        assert plain.returncode == 3 and "needs a person at a terminal" in plain.stderr
        code, screen = typed(gateway, ["users", "reset", "ada"], [("Type the name", "eve")])
        assert code == 3 and "nothing changed" in screen
        code, screen = typed(gateway, ["users", "reset", "ada"], [("Type the name", "ada")])
        assert code == 0, screen
        link = re.search(r"http://localhost:\d+/ui/setup/\w+", screen)
        assert link, screen
        ada.open("/ui/account")
        assert "/ui/login" in ada.url, "the session has ended"
        refused = httpx.post(f"{gateway.base}/api/v1/login", json={"name": "ada", "password": PASSWORD})
        assert refused.status_code == 401
        users = json.loads(gateway.run("users", "list", "-o", "json").stdout)["users"]
        assert [(user["name"], user["password"], user["second_factor"]) for user in users] == [("ada", False, False)]
        ada.open(link.group())
        pictures(ada, "setup-again")
        ada.password = "another long password"
        for field in ("password", "again"):
            ada.do("fill", field=field, value=ada.password)
        ada.do("press", button="create account")
        ada.enrol()
        ada.sees("your recovery codes")
        ada.open("/ui/settings")
        assert httpx.get(link.group().replace("localhost", "127.0.0.1")).status_code == 404, "the link works once"
        Session(gateway, "ada", ada.password)

        def is_recorded() -> bool:
            found = gateway.admin("/activity?type=auth&limit=50")["activities"]
            return any(one["code"] == "user_reset_by_operator" and one["metadata"]["user"] == "ada" for one in found)

        until(is_recorded, SECONDS, "the record of the reset")


def test_the_operator_invites_a_user(tmp_path: Path) -> None:
    with Gateway(tmp_path) as gateway:
        set_up_plainly(gateway, "ada")
        code, screen = typed(gateway, ["users", "invite", "berta"], [("Type the name", "berta")])
        assert code == 0, screen
        link = re.search(r"/ui/setup/\w+", screen)
        assert link, screen
        form = {"name": "eve", "password": PASSWORD, "again": PASSWORD}
        made = httpx.post(at_localhost(gateway) + link.group(), data=form)
        assert made.status_code == 303, made.text
        users = json.loads(gateway.run("users", "list", "-o", "json").stdout)["users"]
        assert [user["name"] for user in users] == ["ada", "berta"], "the link is for one name"
        code, screen = typed(gateway, ["users", "invite", "berta"], [("Type the name", "berta")])
        assert code == 1 and "already exists" in screen


def test_a_reset_without_a_gateway_is_recorded_at_the_next_start(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    with gateway:
        set_up_plainly(gateway, "ada")
    code, screen = typed(gateway, ["users", "reset", "ada"], [("Type the name", "ada")])
    assert code == 0 and "No gateway is running" in screen, screen
    with gateway:
        found = lambda: [one["code"] for one in gateway.admin("/activity?type=auth&limit=50")["activities"]]  # noqa: E731
        until(lambda: "user_reset_by_operator" in found(), SECONDS, "the record of the reset")
