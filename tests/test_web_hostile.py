"""Names that want to be code, paths that want to climb, and statements that want to be SQL stay text."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

pytest.importorskip("flask", reason="the site needs the extra [web]")

import storekit
import webkit
from ptxguard.store.rows import Excerpt, StoredArtifact
from ptxguard.store.store import open_store
from ptxguard.store.write import NewRun
from ptxguard.web.app import create_app
from ptxguard.web.settings import Settings

NAMES = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title><svg/onload=alert(1)>",
    "{{ 7919 * 7907 }}{% raw %}",
    "java\u202escript:\u2066x\u2069",
    "a\0b",
    "\ud800 lone",
    "x" * 10_000,
    '=HYPERLINK("http://evil")',
    "'; DROP TABLE run; --",
    "../../../../etc/passwd",
]


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


@pytest.fixture(scope="module", params=range(len(NAMES)))
def hostile(request, tmp_path_factory):
    """An application whose every name is hostile, and that name."""
    name = NAMES[request.param]
    place = str(tmp_path_factory.mktemp("hostile") / "runs.db")
    finding = webkit.source_finding(
        path=name, function=name, message=name, opcode=f"cp.async.{name}", syscall=name, rule=name
    )
    record = finding.record()
    record["cluster"] = {"verdict": name, "reason": name, "evidence": record["cluster"]["evidence"]}
    record["kernels"] = [{"name": name, "path": name, "line": 1}]
    record["targets"] = {name: "compiled", "sm_120": "compiled"}
    with open_store(place) as store:
        store.add(
            NewRun(
                "source",
                name,
                findings=[record],
                excerpts=[Excerpt(name, 1, webkit.SOURCE.replace("load_tile", name))],
                revision=name,
                toolchain=name,
                errors=[{"path": name, "line": 1, "message": name}],
            )
        )
        call = {
            "name": name,
            "sites": [{"offset": 1, "source": [{"path": name, "line": 1, "function": name}]}],
        }
        kernel = storekit.kernel(name, demangled=name, syscalls=(call,), externs=(name,), stack_unknown=name)
        store.add(
            NewRun(
                "binary", f"{name} lib", kernels=[kernel], artifacts=[StoredArtifact(name, name, "0" * 64)]
            )
        )
        fingerprint = record["fingerprint"]
        store.review(store.runs("source")[0].subject, fingerprint, "intended", name[:4000])
    return create_app(Settings(place, title=name)).test_client(), fingerprint


PAGES = [
    "/",
    "/findings",
    "/findings/{}",
    "/kernels",
    "/kernels/2/1",
    "/runs",
    "/runs/1",
    "/runs/2",
    "/search?q=a",
]


@pytest.mark.parametrize("page", PAGES)
def test_no_name_becomes_markup(hostile, page):
    client, fingerprint = hostile
    answer = client.get(page.format(fingerprint))
    assert answer.status_code == 200, answer.text[-500:]
    tags = Tags()
    tags.feed(answer.text)
    for tag, attributes in tags.found:
        assert tag not in ("script", "img", "iframe", "object")
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        href = attributes.get("href") or ""
        assert href.startswith(("/", "#")) or href == "", href
    assert not set("\u202e\u2066\0") & set(answer.text)
    assert str(7919 * 7907) not in answer.text
    assert len(answer.data) < 300 * 1024
    for form in ("json", "csv"):
        path, mark, query = page.format(fingerprint).partition("?")
        twin = client.get(f"{'/index' if path == '/' else path}.{form}{mark}{query}")
        assert twin.status_code == 200
        if form == "csv":
            assert not [mark for mark in ("\n=", ",=", ',"=') if mark in twin.text]
        else:
            json.loads(twin.data)


def test_feed_and_badge_stay_xml(hostile):
    from xml.dom import minidom  # what is parsed here is our own answer

    client, _ = hostile
    minidom.parseString(client.get("/feed.atom").data)
    minidom.parseString(client.get("/badge.svg").data)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    return create_app(Settings(webkit.make_store(tmp_path_factory.mktemp("web")))).test_client()


CLIMBING = [
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "....//etc/passwd",
    "/etc/passwd",
]


@pytest.mark.parametrize("path", CLIMBING)
@pytest.mark.parametrize("under", ["/static/", "/findings/", "/rules/", "/gpus/", "/runs/", "/"])
def test_no_path_leads_out(client, under, path):
    answer = client.get(under + path)
    assert answer.status_code in (308, 400, 404)
    assert "root:" not in answer.text


@pytest.mark.parametrize("name", ["path", "subject", "code", "target", "verdict", "destination", "basis"])
@pytest.mark.parametrize(
    "value", ["' OR 1=1 --", '"; DROP TABLE run; --', "%", "_", "\\", "a' UNION SELECT 1--"]
)
def test_sql_in_a_filter_finds_nothing_and_breaks_nothing(client, name, value):
    answer = client.get("/findings.json", query_string={name: value})
    assert answer.status_code == 200
    assert json.loads(answer.data)["data"]["paging"]["total"] == 0
    assert json.loads(client.get("/findings.json").data)["data"]["paging"]["total"] == 2


@pytest.mark.parametrize("value", ['"', "NEAR(", "a* OR b", "{", "\u202e", "x" * 4000, "- -", "name:gemm"])
def test_no_search_is_a_syntax_error(client, value):
    assert client.get("/search", query_string={"q": value}).status_code == 200
