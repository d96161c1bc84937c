"""An export is whole, has no broken link, is the same every time, and replaces nothing that is not its own."""

from __future__ import annotations

import filecmp
import json
import posixpath
import re
from html.parser import HTMLParser

import pytest

pytest.importorskip("flask", reason="the site needs the extra [web]")

from click.testing import CliRunner

import storekit
import webkit
from ptxguard.commands.export import command
from ptxguard.errors import ConfigError, ToolError
from ptxguard.store.store import open_store
from ptxguard.web.export import export_site
from ptxguard.web.settings import Settings
from ptxguard.web.sitemap import PAGES
from ptxguard.web.staticlinks import Inventory, StaticLinks, address_of, file_of


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.ids = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.links += [named[name] for name in ("href", "src", "action") if name in named]
        self.ids += [named["id"]] if "id" in named else []


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return webkit.make_store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def site(place, tmp_path_factory):
    folder = tmp_path_factory.mktemp("out") / "site"
    export_site(Settings(place), folder)
    return folder


def files_of(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_every_link_leads_to_a_file_and_every_anchor_is_there(site):
    files = files_of(site)
    pages = {name: Page((site / name).read_text("utf-8")) for name in files if name.endswith(".html")}
    assert len(pages) > 60
    for name, page in pages.items():
        assert len(page.ids) == len(set(page.ids)), name
        for link in page.links:
            target, _, anchor = link.partition("#")
            if not target:
                assert anchor in page.ids, (name, link)
                continue
            assert not target.startswith(("/", "http")), (name, link)
            assert posixpath.normpath(posixpath.join(posixpath.dirname(name), target)) in files, (name, link)


def test_every_page_of_the_site_is_there_but_search(site):
    files = files_of(site)
    for name, page in PAGES.items():
        pattern = re.sub(r"\{\w+\}", "[^/]+", page.path.strip("/")).rstrip("/")
        found = [file for file in files if re.fullmatch(f"{pattern}/index.html".lstrip("/"), file)]
        assert bool(found) == (name != "search"), name
    assert "findings/severity/error/index.html" in files
    assert "kernels/4/1/index.html" in files  # it has a finding
    assert "kernels/4/2/index.html" not in files
    assert "badge.svg" in files
    assert "feed.atom" not in files


def test_twins_stand_beside_the_page(site):
    data = json.loads((site / "findings" / "index.json").read_text("utf-8"))
    assert data["page"] == "findings"
    html = (site / "findings" / "index.html").read_text("utf-8")
    assert 'href="index.json"' in html
    assert "ptxguard serve" in html
    assert "<form" not in html


def test_two_exports_are_the_same_bytes_with_any_number_of_processes(place, site, tmp_path):
    export_site(Settings(place), tmp_path / "again", jobs=2)
    names = files_of(site)
    assert files_of(tmp_path / "again") == names
    match, mismatch, errors = filecmp.cmpfiles(site, tmp_path / "again", names, shallow=False)
    assert (len(match), mismatch, errors) == (len(names), [], [])


def test_a_folder_of_somebody_else_is_left_alone(place, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match="no export has written"):
        export_site(Settings(place), tmp_path / "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_an_export_replaces_the_one_before_as_a_whole(place, tmp_path, monkeypatch):
    folder = tmp_path / "site"
    export_site(Settings(place), folder)
    (folder / "stale.html").write_text("old")
    export_site(Settings(place, base_url="https://ptx.example.org"), folder)
    assert not (folder / "stale.html").exists()
    assert "https://ptx.example.org/findings/" in (folder / "feed.atom").read_text("utf-8")
    before = files_of(folder)

    def fail(*_):
        raise ToolError("the store cannot be used")

    monkeypatch.setattr("ptxguard.web.export.take_inventory", fail)
    with pytest.raises(ToolError):
        export_site(Settings(place), folder)
    assert files_of(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_the_command_says_what_it_wrote(place, tmp_path):
    done = CliRunner().invoke(command, ["--store", place, str(tmp_path / "site"), "--jobs", "1"])
    assert done.exit_code == 0, done.output
    assert re.search(r"\d+ pages, \d+ files, [\d.]+ MiB in [\d.]+ s: open .*index.html", done.output)
    missing = CliRunner().invoke(command, ["--store", str(tmp_path / "none.db"), str(tmp_path / "x")])
    assert isinstance(missing.exception, ConfigError)


EVERYTHING = Inventory(
    frozenset({"a:1", "b:1"}), frozenset({"b:1"}), frozenset({(4, 1)}), frozenset({(1, 2)}), frozenset({4, 5})
)


@pytest.mark.parametrize(
    ("name", "values", "file"),
    [
        ("overview", {}, "index.html"),
        ("findings", {"severity": "error"}, "findings/severity/error/index.html"),
        ("findings", {"severity": "error", "page": 2}, "findings/severity/error/page-2/index.html"),
        ("findings", {"page": 1}, "findings/index.html"),
        ("findings", {"severity": "error", "code": "TMA001"}, None),
        ("finding", {"fingerprint": "a:1", "subject": "te", "run": 3}, "findings/a-1-"),
        ("finding", {"fingerprint": "gone:1"}, None),
        ("kernels", {"target": "sm_120a"}, "kernels/target/sm_120a/index.html"),
        ("kernels", {"target": "sm_120a", "syscall": "yes"}, None),
        ("kernels", {"page": 2}, None),
        ("kernels", {"syscall": "no"}, None),
        ("kernel", {"run": 4, "place": 1}, "kernels/4/1/index.html"),
        ("kernel", {"run": 4, "place": 2}, None),
        ("compare", {"old": 1, "new": 2, "list": "new"}, "compare/1/2/list/new/index.html"),
        ("compare", {"old": 1, "new": 3}, None),
        ("search", {"q": "x"}, None),
    ],
)
def test_what_has_a_page_in_an_export(name, values, file):
    address = address_of(PAGES[name], values, EVERYTHING)
    if file is None:
        assert address is None
    else:
        assert file_of(PAGES, address).startswith(file)


def test_a_finding_of_two_subjects_has_two_pages():
    files = {
        file_of(PAGES, address_of(PAGES["finding"], {"fingerprint": "b:1", "subject": subject}, EVERYTHING))
        for subject in ("one", "two")
    }
    assert len(files) == 2


@pytest.mark.parametrize(
    "value", ["CON", "nul.txt", "..", "a/b", "A", "a", "x" * 500, "ä", "", " ", "a?b", "a:b"]
)
def test_file_names_are_safe_and_tell_values_apart(value):
    others = ["con", "a", "a-b", "x" * 499]
    own = file_of(PAGES, address_of(PAGES["findings"], {"path": value}, EVERYTHING))
    assert re.fullmatch(r"findings/path/[a-z0-9._-]{1,90}/index\.html", own)
    assert "/../" not in own
    for other in others:
        if other != value:
            assert (
                file_of(PAGES, address_of(PAGES["findings"], {"path": other}, EVERYTHING)).lower()
                != own.lower()
            )


def test_links_are_relative_to_their_file():
    links = StaticLinks(PAGES, EVERYTHING, ("findings", (("severity", "error"),)))
    assert links.to("overview") == "../../../index.html"
    assert links.to("findings", severity="note") == "../note/index.html"
    assert links.asset("site.css") == "../../../static/site.css"
    assert list(links.wanted) == [("overview", ()), ("findings", (("severity", "note"),))]


def test_a_thinned_store_can_be_exported(tmp_path):
    from ptxguard.store.transfer import thin_out

    with open_store(str(tmp_path / "s.db")) as store:
        for created in (webkit.T1, webkit.T2):
            store.add(storekit.source_run(f"f{created[9]}:1", created=created))
        thin_out(store.database, 1)
    export_site(Settings(str(tmp_path / "s.db")), tmp_path / "site")
    assert (tmp_path / "site" / "runs" / "1" / "index.html").is_file()
