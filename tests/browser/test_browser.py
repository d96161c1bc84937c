"""People use the site in a real browser: with mouse, keyboard, without JavaScript, on a phone, in the dark."""

from __future__ import annotations

import os
import shutil

import pytest

pytest.importorskip("flask", reason="the site needs the extra [web]")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")


import webkit
from ptxguard.store.store import open_store
from ptxguard.web.app import create_app
from ptxguard.web.export import export_site
from ptxguard.web.settings import Settings

pytestmark = pytest.mark.browser

FINDING = "00000000000000aa:1"
PAGES = [
    "/",
    "/findings",
    "/findings?severity=error",
    f"/findings/{FINDING}",
    "/findings/00000000000000bb:1",
    "/kernels",
    "/kernels/4/1",
    "/runs",
    "/runs/2",
    "/runs/4",
    "/compare/1/2",
    "/rules",
    "/rules/TMA001",
    "/atlas",
    "/gpus",
    "/gpus/rtx-5090",
    "/probes",
    "/probes/5",
    "/search?q=load",
    "/about",
    "/sign-in",
]
# Chromium asks its maker's hosts at start otherwise; as root it has no sandbox of its own.
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-sync"
)


@pytest.fixture(scope="module")
def chromium():
    found = (
        os.environ.get("PTXGUARD_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    )
    if found is None:
        pytest.skip("no chromium on PATH; PTXGUARD_TEST_CHROMIUM may name one")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=found, args=[*FLAGS.split(), "--disable-component-update"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return webkit.make_store(tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def site(place):
    """Address of a served site."""
    with webkit.serving(create_app(Settings(place, token=webkit.TOKEN))) as address:
        yield address


@pytest.fixture
def open_page(chromium, site):
    """Opens pages of the site; at the end none may have complained, or asked another host for anything."""
    contexts, complaints = [], []

    def make(path="/", width=1440, **how):
        context = chromium.new_context(viewport={"width": width, "height": 900}, **how)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(5000)
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda sent: None if sent.url.startswith((site, "data:")) else complaints.append(sent.url),
        )
        page.goto(site + path)
        return page

    yield make
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_no_page_shuts_anybody_out(open_page, site, width, scheme):
    page = open_page(width=width, color_scheme=scheme)
    for path in PAGES:
        page.goto(site + path)
        found = axe.Axe().run(page).response["violations"]
        serious = [
            (one["id"], [node["html"][:200] for node in one["nodes"]][:3])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == [], (path, width, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_at_twice_the_size_nothing_is_cut_off(open_page, site):
    page = open_page(width=640)  # what 1280 px show at 200 %
    for path in PAGES:
        page.goto(site + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 640, path


@pytest.mark.parametrize("scripts", [True, False])
def test_filter_open_compare_and_change_the_card(open_page, site, scripts):
    page = open_page("/findings?run=2", java_script_enabled=scripts)
    page.get_by_role("complementary").get_by_role("link", name="error").click()
    assert page.url.endswith("/findings?run=2&severity=error")
    page.get_by_role("link", name="TMA001 cluster-copy-to-own-cta").click()
    assert "/findings/" in page.url
    assert page.locator("mark").first.is_visible()
    page.get_by_label("Prices on").select_option("GB10")
    page.get_by_role("button", name="Show").click()
    assert "gpu=GB10" in page.url
    assert page.locator("dl.facts").get_by_text("954 MiB").is_visible()
    page.goto(f"{site}/runs/3")
    page.get_by_role("link", name="Compare with run 2", exact=True).click()
    assert page.get_by_role("heading", name="Run 3 against run 2").is_visible()
    page.get_by_role("link", name="1 unchanged").click()
    assert page.url.endswith("list=unchanged")


def test_the_chain_leads_to_the_parts_of_the_page(open_page):
    page = open_page(f"/findings/{FINDING}")
    page.locator("svg.chain a").filter(has_text="inline PTX").click()
    assert page.url.endswith("#source")


def test_search(open_page):
    page = open_page()
    page.get_by_label("Search").fill("gemm")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("link", name="gemm(float*)").click()
    assert page.get_by_role("heading", name="1 kernel").is_visible()


def test_with_the_keyboard_only(open_page):
    page = open_page("/findings?run=2")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent").strip() == "error":
            break
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    page.keyboard.press("Enter")
    page.wait_for_url("**severity=error")


def test_a_status_is_set_and_stays(open_page, site, place):
    page = open_page(f"/findings/{FINDING}")
    page.get_by_role("link", name="Sign in", exact=True).first.click()
    page.get_by_label("Token of the site").fill(webkit.TOKEN)
    page.get_by_role("button", name="Sign in").click()
    page.goto(f"{site}/findings/{FINDING}")
    page.get_by_label("Status").select_option("intended")
    page.get_by_label("Note").fill("needed for <peers>")
    page.get_by_role("button", name="Save").click()
    assert page.url.endswith("#review")
    assert page.locator("#review").get_by_text("needed for <peers>").first.is_visible()
    with open_store(place) as store:
        assert store.finding(FINDING, "te").review.status == "intended"


def test_an_export_opens_from_disk(chromium, place, tmp_path):
    export_site(Settings(place), tmp_path / "site")
    context = chromium.new_context()
    page = context.new_page()
    requests = []
    page.on("request", lambda sent: requests.append(sent.url))
    page.goto((tmp_path / "site" / "index.html").as_uri())
    assert page.evaluate("getComputedStyle(document.body).margin") == "0px"  # the style sheet is there
    page.get_by_role("link", name="Findings", exact=True).click()
    page.get_by_role("complementary").get_by_role("link", name="error").click()
    assert page.url.endswith("/findings/severity/error/index.html")
    page.get_by_role("link", name="TMA001 cluster-copy-to-own-cta").click()
    assert page.locator("mark").first.is_visible()
    assert all(url.startswith("file://") for url in requests)
    context.close()
