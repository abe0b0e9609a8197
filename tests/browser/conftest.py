"""A real browser, or a skip with its reason."""

import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser():
    api = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright: pip install 'evenhand[browser]'"
    )
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("needs a browser: apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield browser
        browser.close()


class Visit:
    """A page that was opened, and what it asked for and complained about."""

    def __init__(self, browser, path, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())


@pytest.fixture
def visit(browser):
    """Open a file in a fresh window."""
    visits = []

    def opened(path, **options):
        visits.append(Visit(browser, path, **options))
        return visits[-1]

    yield opened
    for each in visits:
        each.context.close()
