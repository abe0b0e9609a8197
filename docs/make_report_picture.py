"""Make the report of docs/how-to/report.md on the law school data, and the picture of it for the README.

Run it as `python docs/make_report_picture.py [folder]`; EVENHAND_DATA names the folder of the data. It takes
the extras `report` and `browser`, and a Chromium.
"""

import argparse
import shutil
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright
from sklearn.model_selection import train_test_split

import evenhand as eh

WIDTH = 1000
SEED = 0


def make_report(path: Path) -> Path:
    """A model of grades, with 30% of the rows for the report."""
    data = eh.datasets.load_law_school()
    groups = np.where(data.sensitive_features == 1, "white", "others")
    rows = np.arange(len(groups))
    labelled, rest = train_test_split(rows, test_size=0.6, stratify=groups, random_state=SEED)
    unlabelled, test = train_test_split(rest, test_size=0.5, stratify=groups[rest], random_state=SEED)
    model = eh.ParityRegressor(epsilon=0.05, random_state=SEED)
    grades = data.target * 4.0
    model.fit(
        data.data[labelled],
        grades[labelled],
        sensitive_features=groups[labelled],
        X_unlabeled=data.data[unlabelled],
    )
    return eh.report(
        model,
        data.data[test],
        grades[test],
        sensitive_features=groups[test],
        path=path,
        title="Grades in the first year of law school",
    )


def make_picture(report: Path, path: Path) -> Path:
    """From the slider to the distributions."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, device_scale_factor=1.25)
        page.goto(report.resolve().as_uri())
        top = page.locator("header").bounding_box()["y"]
        last = page.locator("figure .pair").bounding_box()
        clip = {"x": 0, "y": top, "width": WIDTH, "height": last["y"] + last["height"] - top + 6}
        page.screenshot(path=path, full_page=True, clip=clip)
        browser.close()
    return path


def main() -> None:
    """Make both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent / "figures")
    folder = parser.parse_args().folder
    page = make_report(Path(folder) / "report-law.html")
    picture = make_picture(page, folder / "report-law.png")
    page.unlink()
    assert picture.stat().st_size < 400_000, "the picture is too large for a README"


if __name__ == "__main__":
    main()
