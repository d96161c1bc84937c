"""The site is read-only without a token; with one, uploads and reviews need it, within limits."""

from __future__ import annotations

import gzip
import json

import pytest

pytest.importorskip("flask", reason="the site needs the extra [web]")

import webkit
from ptxguard.store.rows import FindingFilter
from ptxguard.store.store import open_store
from ptxguard.web.app import create_app
from ptxguard.web.settings import Settings
from storekit import fresh_database

AUTH = {"Authorization": f"Bearer {webkit.TOKEN}"}
FINDING = "00000000000000aa:1"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def place(request, tmp_path):
    url = None if request.param == "sqlite" else fresh_database(request.getfixturevalue("postgres"))
    return webkit.make_store(tmp_path, url)


@pytest.fixture
def client(place):
    settings = Settings(place, token=webkit.TOKEN, max_upload_bytes=200_000)
    return create_app(settings).test_client()


def report(*findings, **changed):
    records = [finding.record() for finding in findings]
    tool = {"name": "ptxguard", "version": "0.1.0"}
    return {"version": 1, "tool": tool, "findings": records, "errors": [], **changed}


def upload(client, body, query="?subject=ci", **headers):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **AUTH, **headers}
    return client.post(
        f"/api/runs{query}", data=data, headers={k: v for k, v in sent.items() if v is not None}
    )


def test_every_answer_carries_the_headers(client):
    for address in ("/", "/findings.json", "/nothing", "/static/site.css", "/badge.svg"):
        headers = client.get(address).headers
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self'")
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "same-origin"


def test_a_page_is_sent_once_and_compressed(client):
    first = client.get("/findings", headers={"Accept-Encoding": "gzip"})
    assert first.headers["Content-Encoding"] == "gzip"
    assert b"<h1>" in gzip.decompress(first.data)
    again = client.get(
        "/findings", headers={"If-None-Match": first.headers["ETag"], "Accept-Encoding": "gzip"}
    )
    assert (again.status_code, again.data) == (304, b"")


def test_without_a_token_nothing_can_be_changed(place):
    client = create_app(Settings(place)).test_client()
    assert upload(client, report()).status_code == 404
    assert client.put("/api/reviews", json={}, headers=AUTH).status_code == 404
    assert client.get("/sign-in").status_code == 404
    assert client.post("/reviews").status_code == 404
    assert "Sign in" not in client.get("/").text
    assert client.post("/findings").status_code == 405


def test_only_names_of_this_machine_are_answered(place):
    local = create_app(Settings(place)).test_client()
    assert local.get("/", headers={"Host": "localhost:8080"}).status_code == 200
    assert local.get("/", headers={"Host": "evil.example"}).status_code == 400
    named = create_app(Settings(place, base_url="https://ptx.example.org")).test_client()
    assert named.get("/", headers={"Host": "ptx.example.org"}).status_code == 200
    assert (
        create_app(Settings(place, hosts=None)).test_client().get("/", headers={"Host": "a.b"}).status_code
        == 200
    )


def test_an_upload_is_stored_once_and_answered_when_it_is_safe(client, place):
    body = report(webkit.source_finding())
    first = upload(client, body, "?subject=ci&revision=abc", **{"Idempotency-Key": "job-1"})
    assert (first.status_code, first.json) == (201, {"run": 6, "created": True, "states": {"new": 1}})
    again = upload(client, body, "?subject=ci", **{"Idempotency-Key": "job-1"})
    assert (again.status_code, again.json) == (200, {"run": 6, "created": False, "states": {"new": 1}})
    with open_store(place) as store:
        run = store.run(6)
        assert (run.kind, run.subject, run.revision, run.key) == ("source", "ci", "abc", "job-1")
        (row,) = store.findings(FindingFilter(run=6)).rows
        assert store.finding(row.fingerprint, "ci").record == body["findings"][0]
    assert client.get(f"/findings/{FINDING}?subject=ci").status_code == 200


def test_reports_of_scan_and_probe_are_taken_too(client, place):
    kernel = {
        "name": webkit.KERNEL,
        "demangled": "gemm(float*)",
        "target": "sm_120a",
        "image": 0,
        "registers": 40,
        "stack_bytes": 8,
        "stack_known": False,
        "cluster_dims": [2, 1, 1],
        "syscalls": [{"name": "__cuda_syscall_x", "sites": [{"offset": 8, "source": []}]}],
        "externs": ["vprintf"],
    }
    artifact = {
        "path": "l.so",
        "member": None,
        "sha256": "0" * 64,
        "images": [{"toolkit": "13.0"}],
        "kernels": [kernel],
    }
    scan = {**report(webkit.binary_finding()), "artifacts": [artifact], "summary": []}
    assert (
        upload(client, gzip.compress(json.dumps(scan).encode()), **{"Content-Encoding": "gzip"}).status_code
        == 201
    )
    assert upload(client, webkit.probe_record()).status_code == 201
    with open_store(place) as store:
        stored = store.kernel(6, 0)
        assert (stored.stack_bytes, stored.cluster_dims, stored.externs) == (None, (2, 1, 1), ("vprintf",))
        assert store.run(6).toolchain == "13.0"
        assert store.run(7).kind == "probe"


def broken(**changed):
    record = webkit.source_finding().record()
    return report() | {"findings": [{**record, **changed}]}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 400, "no JSON"),
        (b"{", 400, "no JSON"),
        (b"\xff\xfe", 400, "no JSON"),
        (b"[" * 100_000, 400, "no JSON"),
        (b"[]", 422, "no JSON object"),
        ({}, 422, "missing required field"),
        (report(version=2), 422, "$.version"),
        (broken(severity="fatal"), 422, "$.findings[0].severity"),
        (broken(line=-1), 422, "$.findings[0].line"),
        (broken(line=1 << 40), 422, "$.findings[0].line"),
        (broken(fingerprint="../../x"), 422, "$.findings[0].fingerprint"),
        (broken(targets={"sm_<script>": "compiled"}), 422, "$.findings[0].targets"),
        (broken(cost=[{"gpu": "x", "more": 1}]), 422, "$.findings[0].cost"),
        (broken(kernels=[{"name": 1, "path": None, "line": None}]), 422, "$.findings[0].kernels"),
        (report(webkit.source_finding(), webkit.source_finding()), 422, "fingerprint of its own"),
        ({"variants": [], "version": 1}, 422, "missing required field"),
        (b"x" * 300_000, 413, "larger than this site takes"),
    ],
)
def test_a_bad_upload_gets_one_clear_answer_and_leaves_nothing(client, place, body, status, said):
    answer = upload(client, body)
    assert (answer.status_code, answer.mimetype) == (status, "application/problem+json")
    assert said in answer.json["title"]
    with open_store(place) as store:
        assert len(store.runs()) == 5


def test_other_uploads_that_are_refused(client):
    assert upload(client, report(), Authorization=None).status_code == 401
    assert upload(client, report(), Authorization="Bearer wrong").status_code == 401
    assert upload(client, report(), Authorization=f"Basic {webkit.TOKEN}").status_code == 401
    assert upload(client, report(), **{"Content-Type": "text/plain"}).status_code == 415
    assert upload(client, report(), **{"Content-Encoding": "br"}).status_code == 415
    assert upload(client, report(), query="").status_code == 400
    assert upload(client, report(), query="?subject=a&sub=b").status_code == 400
    assert upload(client, report(), **{"Idempotency-Key": "k" * 101}).status_code == 400
    bomb = gzip.compress(b" " * 30_000_000)
    assert upload(client, bomb, **{"Content-Encoding": "gzip"}).status_code == 413
    assert upload(client, bomb[:100], **{"Content-Encoding": "gzip"}).status_code == 400
    assert upload(client, b"no gzip", **{"Content-Encoding": "gzip"}).status_code == 400


def test_too_many_uploads_have_to_wait(place):
    client = create_app(Settings(place, token=webkit.TOKEN, uploads_per_minute=3)).test_client()
    assert [upload(client, report()).status_code for _ in range(4)] == [201, 201, 201, 429]


def test_a_review_by_program(client, place):
    asked = {"subject": "te", "fingerprint": FINDING, "status": "intended", "note": "needed"}
    assert client.put("/api/reviews", json=asked).status_code == 401
    assert client.put("/api/reviews", json=asked, headers=AUTH).status_code == 204
    with open_store(place) as store:
        assert store.finding(FINDING, "te").review.note == "needed"
    assert client.get("/findings.json?status=intended").json["data"]["paging"]["total"] == 1
    for wrong, status in (
        ({"status": "maybe"}, 422),
        ({"fingerprint": "0:1"}, 404),
        ({"note": "x" * 4001}, 422),
    ):
        assert client.put("/api/reviews", json={**asked, **wrong}, headers=AUTH).status_code == status


def csrf_of(client):
    return client.get(f"/findings/{FINDING}").text.partition('name="csrf" value="')[2].partition('"')[0]


def test_a_review_in_the_browser(client, place):
    assert "Save" not in client.get(f"/findings/{FINDING}").text
    wrong = client.post("/sign-in", data={"token": "wrong"})
    assert (wrong.status_code, "not the token" in wrong.text) == (403, True)
    entered = client.post("/sign-in", data={"token": webkit.TOKEN})
    assert entered.status_code == 303
    cookie = entered.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert webkit.TOKEN not in cookie + client.get(f"/findings/{FINDING}").text
    form = {"subject": "te", "fingerprint": FINDING, "status": "false alarm", "note": "<b>no</b>"}
    assert client.post("/reviews", data={**form, "csrf": "guess"}).status_code == 403
    saved = client.post("/reviews", data={**form, "csrf": csrf_of(client)})
    assert saved.status_code == 303
    assert saved.headers["Location"].endswith("?subject=te#review")
    html = client.get(f"/findings/{FINDING}").text
    assert "<b>false alarm</b>" in html
    assert "&lt;b&gt;no&lt;/b&gt;" in html
    assert (
        client.post("/reviews", data={**form, "status": "maybe", "csrf": csrf_of(client)}).status_code == 400
    )
    client.post("/sign-out", data={"csrf": csrf_of(client)})
    assert "Save" not in client.get(f"/findings/{FINDING}").text


def test_guessing_the_token_is_slow(client):
    statuses = [client.post("/sign-in", data={"token": str(number)}).status_code for number in range(12)]
    assert statuses == [403] * 10 + [429] * 2


def test_the_log_holds_no_secret(client, caplog, monkeypatch):
    monkeypatch.setattr("ptxguard.web.upload.read_upload", None)
    monkeypatch.setattr("ptxguard.web.api.read_upload", lambda *_: 1 / 0)
    with caplog.at_level("DEBUG"):
        answer = upload(client, report())
    assert (answer.status_code, answer.json["title"]) == (500, "the site has failed; its log says why")
    assert "ZeroDivisionError" in caplog.text
    assert webkit.TOKEN not in caplog.text


def test_a_store_that_breaks_is_said_in_one_sentence(tmp_path, monkeypatch):
    place = webkit.make_store(tmp_path)
    client = create_app(Settings(place)).test_client()
    from ptxguard.errors import ToolError

    def fail(*_):
        raise ToolError("the store cannot be used: disk I/O error", path="/secret/path")

    monkeypatch.setattr("ptxguard.store.read.Reader.runs", fail)
    answer = client.get("/runs")
    assert answer.status_code == 503
    assert "/secret" not in answer.text


def test_a_report_that_leaves_out_all_it_may_is_shown(client):
    record = {
        **webkit.source_finding("000000000000000f:1").record(),
        "opcode": None,
        "function": None,
        "syscall": None,
        "fix": None,
        "kernels": [],
        "evidence": [],
        "cost": [],
        "targets": {},
        "on_target": {},
        "cluster": {"verdict": None, "reason": None},
        "address": {"verdict": None},
        "performance": {"binary": None, "kernels": None, "never runs": None},
        "line": 0,
        "path": "",
    }
    assert upload(client, report() | {"findings": [record]}).status_code == 201
    for page in (
        "/",
        "/findings?run=6",
        "/findings/000000000000000f:1",
        "/runs/6",
        "/compare/3/6",
        "/feed.atom",
    ):
        assert client.get(page).status_code == 200, page
    assert client.get("/findings.csv?run=6").status_code == 200
