"""The console as a browser without a script would use it: doors, walls between tenants, forms, what a page weighs."""

import gzip
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import httpx
import pytest

from kedge.bandit.v1 import governance_service_pb2, policy_pb2, proposal_pb2, proposal_service_pb2
from tests.fixtures.console import SAME_ORIGIN, Place, running_console
from tests.fixtures.proposing import a_pass

MOST_KILOBYTES = 120
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}\u202egnp.exe'


OWN_PARTS = {"script src=/static/console.js", "script src=/static/htmx.min.js"}


class Parts(HTMLParser):
    """Collect what could act: scripts, styles, frames, images, handlers, addresses that are code."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style", "iframe", "object", "embed", "img", "base"):
            self.found.add(f"{tag} " + " ".join(f"{k}={(v or '').partition('?')[0]}" for k, v in attrs if k != "defer"))
        for key, value in attrs:
            if key.startswith("on") or key == "style" or (value or "").strip().lower().startswith("javascript:"):
                self.found.add(f"{tag} {key}")


def parts_of(page: str) -> set[str]:
    parts = Parts()
    parts.feed(page)
    return parts.found


@pytest.fixture(scope="module")
def place(fresh_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with running_console(fresh_database, tmp_path_factory.mktemp("kedge"), KEDGE_GATE_PORT="0") as running:
        running.tenant("acme")
        running.tenant("globex")
        running.tenant("hostile")
        yield running


def modes(place: Place, name: str) -> tuple[int, int]:
    with place.stack.services() as services:
        found = services.governance.GetMode(governance_service_pb2.GetModeRequest(name=name))
    return found.mode, found.effective_mode


def form(client: httpx.Client, path: str, **fields: str) -> httpx.Response:
    return client.post(path, data=fields)


def test_without_a_login_every_page_leads_to_it_and_comes_back(place: Place) -> None:
    for path in ("/", "/proposals", "/tenants/acme", "/tenants/acme/policies/support/freeze", "/nowhere"):
        answer = httpx.get(place.address + path)
        assert answer.status_code == httpx.codes.SEE_OTHER
        assert answer.headers["location"].startswith("/login")
    assert (
        "next=/tenants/acme/audit%3Fspan%3Dweek"
        in (httpx.get(f"{place.address}/tenants/acme/audit?span=week").headers["location"])
    )


def test_a_link_works_once_and_is_not_spent_by_looking_at_it(place: Place) -> None:
    link = place.link("acme", person="alice", role="approver")
    for _ in range(2):
        assert "Log in as alice" in httpx.get(link).text
    assert httpx.post(link, headers=SAME_ORIGIN).status_code == httpx.codes.SEE_OTHER
    assert httpx.post(link, headers=SAME_ORIGIN).status_code == httpx.codes.GONE
    assert httpx.get(link).status_code == httpx.codes.GONE


def test_logging_out_ends_the_session(place: Place) -> None:
    with place.visitor("acme", person="alice") as client:
        assert client.get("/").status_code == httpx.codes.OK
        client.post("/logout")
        assert client.get("/").status_code == httpx.codes.SEE_OTHER


def test_the_cookie_is_for_this_host_alone_and_for_no_script(place: Place) -> None:
    answer = httpx.post(place.link("acme", person="alice"), headers=SAME_ORIGIN)
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith("__host-")
    assert all(part in cookie for part in ("secure", "httponly", "samesite=lax", "path=/"))
    assert "domain" not in cookie


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "same-origin", "origin": "https://evil.example"},
        {},
    ],
    ids=str,
)
def test_a_form_that_another_site_sends_is_refused(place: Place, headers: dict[str, str]) -> None:
    with place.visitor("acme", person="mallory", role="approver") as client:
        cookie = client.headers["cookie"]
    answer = httpx.post(
        f"{place.address}/tenants/acme/policies/support/freeze",
        data={"because": "forged"},
        headers={**headers, "cookie": cookie},
    )
    assert answer.status_code == httpx.codes.FORBIDDEN
    assert modes(place, "tenants/acme/policies/support")[0] == policy_pb2.MODE_APPLY


def test_another_name_for_this_machine_is_not_ours(place: Place) -> None:
    answer = httpx.get(f"{place.address}/login", headers={"host": "rebound.example"})
    assert answer.status_code == httpx.codes.MISDIRECTED_REQUEST


def test_pages_of_another_tenant_are_not_found_and_look_like_pages_that_do_not_exist(place: Place) -> None:
    with place.visitor("acme", person="alice", role="admin") as client:
        for rest in (
            "", "/audit", "/proposals", "/proposals/p1", "/holdout", "/freeze", "/policies/support",
            "/policies/support/freeze", "/policies/support/holdout",
        ):  # fmt: skip
            foreign, missing = (client.get(f"/tenants/{tenant}{rest}") for tenant in ("globex", "no-such-tenant"))
            assert foreign.status_code == missing.status_code == httpx.codes.NOT_FOUND
            assert foreign.text == missing.text
        for verb in ("freeze", "policies/support/freeze", "proposals/p1/approve", "proposals/p1/revert"):
            assert form(client, f"/tenants/globex/{verb}", because="x").status_code == httpx.codes.NOT_FOUND
        assert "globex" not in client.get("/").text
    assert modes(place, "tenants/globex")[0] == policy_pb2.MODE_APPLY


def test_a_viewer_is_offered_nothing_and_allowed_nothing(place: Place) -> None:
    with place.visitor("acme", person="eve") as client:
        page = client.get("/tenants/acme/policies/support").text
        assert "/freeze" not in page
        answer = form(client, "/tenants/acme/policies/support/freeze", because="let me")
        assert answer.status_code == httpx.codes.FORBIDDEN
        assert "APPROVER" in answer.text
        assert client.get("/everything/freeze").status_code == httpx.codes.FORBIDDEN
    assert modes(place, "tenants/acme/policies/support")[0] == policy_pb2.MODE_APPLY


def test_a_freeze_without_a_reason_is_refused_on_the_form_with_what_was_written(place: Place) -> None:
    with place.visitor("acme", person="bob", role="approver") as client:
        answer = form(client, "/tenants/acme/policies/support/freeze", because="")
    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert "REASON_REQUIRED" in answer.text
    assert modes(place, "tenants/acme/policies/support")[0] == policy_pb2.MODE_APPLY


def test_an_operator_freezes_everything_knowing_how_many_tenants_that_is(place: Place) -> None:
    with place.visitor() as client:
        page = client.get("/everything/freeze").text
        assert re.search(r"Tenants</dt><dd><strong>3</strong>", page)
        form(client, "/everything/freeze", because="a drill")
        assert modes(place, "tenants/globex/policies/support")[1] == policy_pb2.MODE_FROZEN
        assert "Everything is in mode FROZEN" in client.get("/").text
        form(client, "/everything/unfreeze", because="the drill is over", quarantine="keep")
    assert modes(place, "tenants/globex/policies/support")[1] == policy_pb2.MODE_APPLY


def test_a_tenant_that_is_held_back_says_by_whom_and_why(place: Place) -> None:
    with place.visitor("globex", person="carol", role="admin") as client:
        form(client, "/tenants/globex/freeze", because="the provider is down")
        page = client.get("/tenants/globex").text
        alone = form(client, "/tenants/globex/unfreeze", because="it is back", quarantine="replay")
    with place.visitor("globex", person="dave", role="admin") as client:
        form(client, "/tenants/globex/unfreeze", because="it is back", quarantine="replay")
        after = client.get("/tenants/globex").text
    assert alone.status_code == httpx.codes.FORBIDDEN
    assert "SECOND_PERSON_REQUIRED" in alone.text
    assert "Frozen with its tenant" in page
    assert "carol" in page
    assert "the provider is down" in page
    assert "Nothing is held back" in after


def test_who_stopped_it_reads_that_it_takes_another_and_of_a_program_that_it_does_not(place: Place) -> None:
    policy = "tenants/acme/policies/support"
    with place.visitor("acme", person="frank", role="admin") as client:
        assert "an admin other than frank" in client.get(f"/{policy}/freeze").text
        form(client, f"/{policy}/freeze", because="a drill")
        own, way = client.get(f"/{policy}").text, client.get(f"/{policy}/unfreeze").text
    with place.visitor("acme", person="grace", role="admin") as client:
        other = client.get(f"/{policy}").text
        form(client, f"/{policy}/unfreeze", because="over", quarantine="keep")
    with place.visitor() as client:
        form(client, f"/{policy}/freeze", because="a drill of the program")
        program = client.get(f"/{policy}/unfreeze").text
        form(client, f"/{policy}/unfreeze", because="over", quarantine="keep")
    assert "needs an admin other than you" in own
    assert f'href="/{policy}/unfreeze"' not in own
    assert "frank stopped it" in way
    assert f'href="/{policy}/unfreeze"' in other
    assert "any admin can let it go on" in program
    assert modes(place, policy)[0] == policy_pb2.MODE_APPLY


def test_a_frozen_policy_shows_that_all_traffic_is_the_baselines(place: Place) -> None:
    policy = "tenants/globex/policies/support"
    with place.visitor("globex", person="heidi", role="approver") as client:
        form(client, f"/{policy}/freeze", because="a drill")
        page, front = client.get(f"/{policy}").text, client.get("/?show=stopped").text
    with place.visitor("globex", person="ivan", role="admin") as client:
        form(client, f"/{policy}/unfreeze", because="over", quarantine="keep")
    assert "Now the baseline has 100 %." in page
    assert "too little data (0 of 100)" in page
    assert ">within<" not in page
    assert "100 % now" in front


def test_verifying_the_chain_keeps_what_the_log_was_narrowed_to(place: Place) -> None:
    with place.visitor("acme", person="alice") as client:
        answer = form(client, "/tenants/acme/audit/verify", kind="switch", span="week", subject="")
        page = client.get("/tenants/acme/audit?kind=switch&span=week").text
    assert answer.headers["location"] == "/tenants/acme/audit?kind=switch&span=week"
    said = re.sub(r"</?span>", "", page)
    assert "--verb .frozen --verb .unfrozen" in said
    assert "--days 7" in said


def test_an_operator_reads_the_log_of_every_tenant_and_others_only_their_own(place: Place) -> None:
    with place.visitor() as client:
        every = client.get("/audit").text
    with place.visitor("acme", person="alice") as client:
        own = client.get("/audit").text
    assert "/tenants/globex/audit?subject=" in every
    assert "/tenants/acme/audit?subject=" in every
    assert "/tenants/acme/audit?subject=" in own
    assert "globex" not in own


def test_hostile_text_is_shown_and_does_nothing(place: Place) -> None:
    name = place.waiting("hostile", f"Be kind.\n{HOSTILE}", a_pass())
    policy = "/tenants/hostile/policies/support"
    with place.visitor("hostile", person="root", role="admin") as client:
        form(client, f"/{name}/comment", text=HOSTILE)
        form(client, f"{policy}/freeze", because=HOSTILE)
        pages = [
            client.get(path).text for path in ("/", "/tenants/hostile", "/tenants/hostile/audit", policy, f"/{name}")
        ]
        pages.append(form(client, f"{policy}/freeze", because=HOSTILE).text)
    for page in pages:
        assert "alert(1)" in page
        assert "\u202e" not in page
        assert "{{7*7}}" in page
        assert parts_of(page) <= OWN_PARTS


def test_the_author_sees_the_verdict_and_not_the_evidence(place: Place) -> None:
    name = place.waiting("globex", "Answer in verse.", a_pass(), author="alice")
    with place.visitor("globex", person="alice", role="proposer") as client:
        own = client.get(f"/{name}").text
        assert client.get(f"/{name}/cases").status_code == httpx.codes.FORBIDDEN
        assert form(client, f"/{name}/approve", because="mine").status_code == httpx.codes.FORBIDDEN
    with place.visitor("globex", person="bob", role="approver") as client:
        other = client.get(f"/{name}").text
    assert "rounded to one standard error" in own
    assert "one-sided lower bound" not in own
    assert "one-sided lower bound" in other
    with place.calling("globex", "carol", "APPROVER") as services:
        found = services.proposals.GetProposal(proposal_service_pb2.GetProposalRequest(name=name)).proposal
    assert found.state == proposal_pb2.Proposal.STATE_AWAITING_APPROVAL


def test_pages_may_run_no_script_but_their_own_and_be_in_no_frame(place: Place) -> None:
    with place.visitor("acme", person="alice") as client:
        answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["cache-control"] == "no-store"
    assert parts_of(answer.text) <= OWN_PARTS


def test_the_first_load_is_light(place: Place) -> None:
    with place.visitor("acme", person="alice") as client:
        page = client.get("/")
        assets = set(re.findall(r"\"(/static/[^\"]+)\"", page.text))
        sizes = {"/": len(gzip.compress(page.content, 6))}
        for path in assets:
            answer = client.get(path)
            assert answer.headers["cache-control"].endswith("immutable")
            sizes[path] = int(answer.headers.get("content-length", len(answer.content)))
    assert len(assets) >= 3
    assert sum(sizes.values()) <= MOST_KILOBYTES * 1024, sizes
