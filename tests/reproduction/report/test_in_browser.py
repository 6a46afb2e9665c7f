"""The page in a headless Chromium without a network: no errors, all figures, no broken links, and it fits a phone."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[3] / "results"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")]

PROBE = """<script>
addEventListener("load", () => {
  document.querySelectorAll("details").forEach(d => d.open = PROBE_OPEN);
  const wide = [...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll > *") && !e.closest("svg *")
    && e.getBoundingClientRect().right > innerWidth + 0.5)
    .map(e => e.tagName + " " + e.className + " " + e.textContent.slice(0, 40));
  const visible = e => { const r = e.getBoundingClientRect(); return [e.parentNode.id, r.width, r.height]; };
  const links = [...document.querySelectorAll("a[href]")].map(a => a.getAttribute("href"));
  const found = {
    inner: innerWidth, scrolled: document.documentElement.scrollWidth, wide,
    figures: [...document.querySelectorAll("figure > svg")].map(visible),
    outside: links.filter(l => !l.startsWith("#")),
    missing: links.filter(l => l.startsWith("#") && !document.getElementById(l.slice(1))),
    links: links.length,
    twice: [...document.querySelectorAll("[id]")].map(e => e.id).filter((id, i, all) => all.indexOf(id) !== i),
    unfound: [...document.querySelectorAll("use")].map(u => u.getAttribute("href"))
      .filter(h => !document.getElementById(h.slice(1))),
    fetched: performance.getEntriesByType("resource").map(r => r.name).filter(n => !n.startsWith("data:")),
    empty: [...document.querySelectorAll("table")].filter(t => !t.tBodies[0].rows.length).length,
  };
  parent.postMessage("probe:" + JSON.stringify(found), "*");  // two files have two origins
});
</script>"""


def load(page: Path, width: int, details: bool = True):
    """What the probe found, and the errors in the console.

    The page is in a frame of ``width`` pixels: a window cannot be as narrow as a phone.
    """
    text = page.read_text()
    probed = page.with_name("probed.html")
    probed.write_text(text.replace("</body>", PROBE.replace("PROBE_OPEN", str(details).lower()) + "</body>"))
    frame = page.with_name("frame.html")
    frame.write_text(f"""<body style="margin:0">
      <iframe src="probed.html" style="border:0;width:{width}px;height:900px"></iframe><pre id="said"></pre>
      <script>addEventListener("message", e => document.getElementById("said").textContent = e.data);</script>""")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1400,1000"]
    options += ["--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--v=0"]
    options += [
        f"--user-data-dir={page.parent / 'profile'}",
        "--virtual-time-budget=20000",
        "--dump-dom",
        frame.as_uri(),
    ]
    done = subprocess.run([CHROMIUM, *options], capture_output=True, text=True, timeout=180)
    said = re.search(r'<pre id="said">probe:(.*?)</pre>', done.stdout, re.DOTALL)
    assert said, f"the page did not open: {done.stdout[-500:]} {done.stderr[-2000:]}"
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(unescape(said[1])), console


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "report.html"
    path.write_text((RESULTS / "report.html").read_text())
    return path


def test_the_page_opens_whole_without_a_network(page):
    found, console = load(page, 1280)
    assert not console and not found["fetched"]
    expected = re.findall(r'<figure id="([^"]+)"', page.read_text())
    assert [name for name, *_ in found["figures"]] == expected and len(expected) >= 4
    assert all(width > 200 and height > 50 for _, width, height in found["figures"])
    assert found["links"] > 30
    assert [found[name] for name in ("missing", "outside", "twice", "unfound", "empty")] == [[], [], [], [], 0]


@pytest.mark.parametrize("details", [False, True], ids=["closed", "everything-open"])
def test_on_a_phone_nothing_is_wider_than_the_page(page, details):
    found, console = load(page, 390, details=details)
    assert found["inner"] == 390 and found["scrolled"] == 390 and not found["wide"] and not console
    if details:
        assert all(300 < width <= 390 for _, width, _ in found["figures"])


def test_the_probe_finds_what_it_looks_for(page):
    wrong = (
        '<a href="#nowhere">x</a><a href="https://example.org">y</a><img src="http://example.org/z.png">'
        '<p style="width:700px;max-width:none" id="claims">wide</p><script>nothing_there()</script>'
    )
    page.write_text(page.read_text().replace("<main>", "<main>" + wrong))
    found, console = load(page, 390)
    assert (
        found["missing"] == ["#nowhere"]
        and found["outside"] == ["https://example.org"]
        and found["twice"] == ["claims"]
    )
    assert found["scrolled"] > 390 and any("wide" in what for what in found["wide"])
    assert found["fetched"] == ["http://example.org/z.png"] and any(
        "nothing_there is not defined" in line for line in console
    )
