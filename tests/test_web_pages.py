"""Every page answers as HTML, JSON and CSV, and shows what the store holds."""

from __future__ import annotations

import csv
import io
import json

import pytest

pytest.importorskip("flask", reason="the site needs the extra [web]")

import webkit
from ptxguard.web.app import create_app
from ptxguard.web.settings import Settings
from ptxguard.web.sitemap import PAGES
from storekit import fresh_database

FINDING, WARNING, COMPILED = (f"00000000000000{end}:1" for end in ("aa", "ac", "bb"))
ADDRESSES = {
    "overview": "/",
    "findings": "/findings",
    "finding": f"/findings/{FINDING}",
    "kernels": "/kernels",
    "kernel": "/kernels/4/1",
    "runs": "/runs",
    "run": "/runs/2",
    "compare": "/compare/1/2",
    "rules": "/rules",
    "rule": "/rules/TMA001",
    "atlas": "/atlas",
    "gpus": "/gpus",
    "gpu": "/gpus/rtx-5090",
    "probes": "/probes",
    "probe": "/probes/5",
    "search": "/search?q=load",
    "about": "/about",
}


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def client(request, tmp_path_factory):
    place = None if request.param == "sqlite" else fresh_database(request.getfixturevalue("postgres"))
    return create_app(Settings(webkit.make_store(tmp_path_factory.mktemp("web"), place))).test_client()


def twin(address, form):
    path, mark, query = address.partition("?")
    return f"{'/index' if path == '/' else path}.{form}{mark}{query}"


def text_of(client, address):
    answer = client.get(address)
    assert answer.status_code == 200, (address, answer.text[-800:])
    return answer.text


def data_of(client, address):
    answer = client.get(twin(address, "json"))
    assert answer.status_code == 200, (address, answer.text[-800:])
    return json.loads(answer.data)["data"]


def test_every_page_has_an_address_here():
    assert ADDRESSES.keys() == PAGES.keys()


@pytest.mark.parametrize("name", ADDRESSES)
def test_every_page_answers_in_all_forms(client, name):
    address = ADDRESSES[name]
    html = text_of(client, address)
    assert html.startswith("<!doctype html>")
    assert html.count("<h1") == 1
    assert not [word for word in ("style=", "<script", "onclick", "http://", "javascript:") if word in html]
    record = json.loads(client.get(twin(address, "json")).data)
    assert (record["version"], record["page"], record["gpu"]) == (1, name, "RTX 5090")
    rows = list(csv.reader(io.StringIO(client.get(twin(address, "csv")).text)))
    assert {len(row) for row in rows} == {len(rows[0])}
    for form in ("json", "csv"):
        assert f'href="{twin(address, form)}"'.replace("&", "&amp;").replace("aa:1", "aa%3A1") in html


def test_overview_shows_the_maximum_and_never_a_sum(client):
    page = data_of(client, "/")
    assert page["price"]["expected_mib"] == 3382
    assert page["price"]["kind"] == "predicted"
    assert [row["number"] for row in page["subjects"]] == [3, 4]
    assert "3,382 MiB" in text_of(client, "/")
    assert "6,764" not in text_of(client, "/")


def test_another_card_has_another_price_and_links_keep_it(client):
    page = data_of(client, "/?gpu=GB10")
    assert (page["gpu"], page["price"]["expected_mib"]) == ("GB10", 954)
    html = text_of(client, "/?gpu=GB10")
    assert 'href="/findings?gpu=GB10"' in html
    assert "<option selected>GB10</option>" in html
    # A card that the records do not price gets the public figure for the same function.
    assert data_of(client, "/?gpu=RTX+5080")["price"]["expected_mib"] == 1670


def test_the_trend_has_every_run_of_a_subject(client):
    (trend,) = data_of(client, "/")["trends"]
    assert [(row["number"], row["price"] and row["price"]["expected_mib"]) for row in trend["runs"]] == [
        (1, None),
        (2, 3382),
        (3, 3382),
    ]


def test_facets_are_links_with_counts_and_filters_stay_in_the_address(client):
    page = data_of(client, "/findings?run=2")
    assert page["paging"]["total"] == 2
    severity = next(group for group in page["facets"] if group["name"] == "severity")
    assert [(one["value"], one["count"]) for one in severity["values"]] == [("error", 1), ("warning", 1)]
    assert 'href="/findings?run=2&amp;severity=error"' in text_of(client, "/findings?run=2")
    assert data_of(client, "/findings?run=2&severity=error")["paging"]["total"] == 1
    assert data_of(client, "/findings?run=2&mib=1024")["rows"][0]["fingerprint"] == FINDING
    assert data_of(client, "/findings?run=2&mib=1024&gpu=GB10")["rows"] == []
    assert data_of(client, "/findings?witness=confirmed")["rows"] == []


def test_an_empty_form_field_is_no_filter_but_a_twin_says_so(client):
    assert client.get("/findings?severity=&code=").status_code == 200
    assert client.get("/findings.json?severity=").status_code == 400


def test_one_finding_shows_source_instruction_chain_price_and_fix(client):
    page = data_of(client, f"/findings/{FINDING}")
    assert page["source"]["marks"] == [{"line": 3, "column": 8, "end_column": 8 + len(webkit.OPCODE)}]
    assert [part["text"] for part in page["instruction"]["parts"]] == webkit.OPCODE.split(".")
    assert all(part["known"] for part in page["instruction"]["parts"])
    kinds = [step["kind"] for step in page["chain"]["steps"]]
    assert kinds == ["launch", "kernel", "call", "guard", "asm", "syscall", "price"]
    assert [price["gpu"] for price in page["prices"]] == [
        "RTX 5090",
        "GB10",
        "RTX 5090 Laptop",
        "RTX PRO 6000",
    ]
    assert [line for line in page["fix"]["lines"] if line.startswith(("-  ", "+  "))] == [
        f'-      "{webkit.OPCODE} [%0], [%1];"',
        f'+      "{webkit.OPCODE.replace("shared::cluster", "shared::cta")} [%0], [%1];"',
    ]
    assert page["fix"]["lines"][2] == "@@ -1,5 +1,5 @@"
    assert [one["state"] for one in page["history"]] == ["new", "unchanged"]
    html = text_of(client, f"/findings/{FINDING}")
    assert "<mark>" in html
    assert '<a href="#source">' in html


def test_a_finding_without_launch_says_what_is_missing(client):
    page = data_of(client, f"/findings/{WARNING}")
    assert page["row"]["run"] == 2  # the newest run that has it
    assert page["chain"]["missing"] == (
        "No kernel that reaches this line is in sight, so the chain begins at the instruction."
    )
    assert page["prices"] == []
    assert [one["state"] for one in page["history"]] == ["new", "unchanged", "resolved"]


def test_a_finding_of_compiled_code_lists_the_kernels_that_call(client):
    page = data_of(client, f"/findings/{COMPILED}")
    assert [(one["name"], one["place"]) for one in page["kernels"]] == [(webkit.KERNEL, 0)]
    assert 'href="/kernels/4/1"' in text_of(client, f"/findings/{COMPILED}")


def test_a_finding_of_source_shows_the_compiled_kernels_of_its_names(client):
    page = data_of(client, f"/findings/{FINDING}")
    assert [(one["name"], one["run"]) for one in page["kernels"]] == [(webkit.KERNEL, 4)]
    assert (page["kernels_total"], page["kernels_elsewhere"]) == (1, True)
    assert [one["name"] for one in page["places"]] == ["gemm"]
    assert data_of(client, f"/findings/{COMPILED}")["kernels_elsewhere"] is False


def test_kernels_say_what_is_unknown(client):
    rows = data_of(client, "/kernels")["rows"]
    assert [(one["target"], one["stack_bytes"], one["stack_unknown"]) for one in rows] == [
        ("sm_120a", 0, ""),
        ("sm_90", None, "recursion"),
    ]
    page = data_of(client, "/kernels?syscall=yes")
    assert (page["paging"]["total"], page["targets"]) == (1, [["sm_120a", 1]])
    kernel = data_of(client, "/kernels/4/1")
    assert [(call["syscall"], call["offset"]) for call in kernel["calls"]] == [
        ("__cuda_syscall_cp_async_bulk_tensor_2d_tile_unicast", 64)
    ]
    assert [one["fingerprint"] for one in kernel["findings"]] == [COMPILED]


def test_a_comparison_spells_out_new_resolved_and_unchanged(client):
    assert data_of(client, "/compare/1/2")["counts"] == {"new": 1, "resolved": 0, "unchanged": 1}
    page = data_of(client, "/compare/2/3")
    assert (page["counts"], page["shown"]) == ({"new": 0, "resolved": 1, "unchanged": 1}, "resolved")
    assert [row["fingerprint"] for row in page["rows"]] == [WARNING]
    assert "different things" in text_of(client, "/compare/1/4")


def test_a_run_says_what_it_could_not_read(client):
    page = data_of(client, "/runs/4")
    assert page["errors"] == [{"path": "x.so", "line": None, "message": "cannot check LTO-IR"}]
    assert data_of(client, "/runs/3")["states"] == {"resolved": 1, "unchanged": 1}
    assert data_of(client, "/runs/3")["previous"] == 2


def test_the_atlas_agrees_with_the_rules_of_forms(client):
    page = data_of(client, "/atlas")
    rows = {row["opcode"]: dict(zip(page["targets"], row["outcomes"], strict=True)) for row in page["rows"]}
    assert rows[webkit.OPCODE]["sm_120a"] == "syscall"
    assert rows[webkit.OPCODE]["sm_90a"] == "native"
    assert rows[webkit.OPCODE.replace("shared::cluster", "shared::cta")]["sm_121"] == "native"
    gather = "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes"
    assert rows[gather]["sm_120"] == "rejected"
    assert len(rows) == len(page["rows"])


def test_a_probe_shows_every_launch(client):
    page = data_of(client, "/probes/5")
    assert [(one["name"], one["measured_mib"]) for one in page["variants"]] == [
        ("frame.4096", 792),
        ("refer.x", None),
    ]
    assert client.get("/probes/1").status_code == 404


def test_search_finds_files_functions_and_kernels(client):
    hits = data_of(client, "/search?q=gemm")["rows"]
    assert {one["name"] for one in hits if one["kind"] == "kernel"} == {"gemm", webkit.KERNEL}
    assert [one["name"] for one in data_of(client, "/search?q=load+til")["rows"]] == ["load_tile"]
    assert data_of(client, "/search?q=nowhere")["rows"] == []
    assert data_of(client, "/search")["rows"] == []


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/nothing", "there is no such page"),
        ("/runs/99", "there is no run 99"),
        ("/runs/0", "no whole number"),
        ("/runs/007", "no whole number"),
        ("/findings/0:9", "there is no finding 0:9"),
        ("/findings?page=99", "there is no page 99"),
        ("/kernels?page=99", "there is no page 99"),
        ("/kernels/4/99", "has no kernel 99"),
        ("/rules/TMA999", "no rule has the code"),
        ("/gpus/rtx-1", "no card is called"),
        ("/compare/1/5", "is a probe of a card"),
        ("/findings?run=5", "is a probe of a card"),
    ],
)
def test_what_is_not_there_is_a_404_with_a_reason(client, address, said):
    answer = client.get(address)
    assert answer.status_code == 404
    assert said in answer.text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("sevrity=error", "did you mean severity?"),
        ("severity=fatal", "use one of error, warning, note"),
        ("severity=error&severity=note", "given 2 times"),
        ("page=0", "no whole number"),
        ("page=1e3", "no whole number"),
        ("page=99999999999999999999", "no whole number"),
        ("mib=nan", "no number"),
        ("mib=-1", "no number"),
        ("gpu=RTX+9999", "use one of"),
        ("path=%00", "NUL"),
        ("path=" + "x" * 5000, "4096 are read"),
    ],
)
def test_what_cannot_be_asked_is_a_400_with_a_reason(client, query, said):
    answer = client.get(f"/findings?{query}")
    assert answer.status_code == 400
    assert said in answer.text
    assert json.loads(client.get(f"/findings.json?{query}").data)["status"] == 400


def test_an_empty_store_says_how_to_fill_it(tmp_path):
    from ptxguard.store.store import open_store

    open_store(str(tmp_path / "empty.db")).close()
    empty = create_app(Settings(str(tmp_path / "empty.db"))).test_client()
    for name, address in ADDRESSES.items():
        expected = 404 if name in ("finding", "kernel", "run", "compare", "probe") else 200
        assert empty.get(address).status_code == expected, name
    assert "No run is in the store yet" in empty.get("/").text


def test_feed_and_badge(client):
    feed = client.get("/feed.atom").text
    assert f"/findings/{FINDING.replace(':', '%3A')}?subject=te&amp;run=2" in feed
    assert feed.count("<entry>") == 3
    badge = client.get("/badge.svg").text
    assert "<title>ptxguard RTX 5090: 3.30 GiB</title>" in badge
    assert "954 MiB" in client.get("/badge.svg?gpu=GB10").text
    # A run that could not read a file is not called free.
    assert "no run" in client.get("/badge.svg?subject=nobody").text
