"""Downloads, from a server of our own on 127.0.0.1."""

import hashlib
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from evenhand.datasets import files, load_adult, load_communities, load_law_school
from evenhand.datasets.download import SOURCES, Source, adult_layout, fetch, rows_digest

pytest.importorskip("pooch")

LAW_SCHOOL = (
    "race,cluster,lsat,ugpa,zfygpa,zgpa,bar1,fulltime,fam_inc,age,gender\n"
    "7,1,44,3.0,1.5,2.0,P,1,5,-62,female\n"
    "2,3,40,2.0,0.5,1.0,F,2,4,-60,male\n"
)
UCI_ADULT = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0,"
    " 40, United-States, <=50K\n"
    "50, Private, 83311, Bachelors, 13, Divorced, Exec-managerial, Husband, Black, Female, 0, 0, 13,"
    " United-States, >50K\n"
    "28, Private, 338409, Bachelors, 13, Divorced, Sales, Wife, White, Female, 0, 1902, 40, Cuba, <=50K\n\n"
)


class Site:
    """Pages by path, the number of times each was asked for, and paths that are cut short half way."""

    def __init__(self):
        self.pages, self.asked, self.cut = {}, [], set()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                site.asked.append(self.path)
                if self.path not in site.pages:
                    self.send_error(404)
                    return
                content = site.pages[self.path].encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2] if self.path in site.cut else content)

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def url(self, path):
        return f"http://127.0.0.1:{self.server.server_port}{path}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def site():
    site = Site()
    yield site
    site.close()


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def serve_law_school(site, monkeypatch, known=LAW_SCHOOL):
    site.pages["/lawschool.csv"] = LAW_SCHOOL
    source = Source(site.url("/lawschool.csv"), sha256(known))
    monkeypatch.setitem(SOURCES, "lawschool.csv", source)


def test_a_missing_file_is_downloaded_once_and_then_read_from_its_folder(site, monkeypatch, tmp_path, capfd):
    serve_law_school(site, monkeypatch)
    for _ in range(2):
        bunch = load_law_school(tmp_path / "new", download_if_missing=True)
        assert bunch.target.tolist() == [0.75, 0.5]
    assert site.asked == ["/lawschool.csv"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["lawschool.csv"]
    assert (tmp_path / "new" / "lawschool.csv").read_text() == LAW_SCHOOL
    assert "100%" in capfd.readouterr().err  # the bar
    assert load_law_school(tmp_path / "new").target.tolist() == [0.75, 0.5]


def test_without_a_folder_the_file_goes_to_the_cache_and_is_found_there(site, monkeypatch, tmp_path):
    serve_law_school(site, monkeypatch)
    monkeypatch.delenv("EVENHAND_DATA", raising=False)
    monkeypatch.setattr(files, "_checkout_folder", lambda: None)
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / name)
    with pytest.raises(FileNotFoundError, match="download_if_missing=True"):
        load_law_school()
    assert len(load_law_school(download_if_missing=True).target) == 2
    assert len(load_law_school().target) == 2
    assert (tmp_path / "evenhand" / "lawschool.csv").is_file()
    assert len(site.asked) == 1


def test_the_folder_of_the_environment_is_where_a_download_goes(site, monkeypatch, tmp_path):
    serve_law_school(site, monkeypatch)
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path / "named"))
    load_law_school(download_if_missing=True)
    assert (tmp_path / "named" / "lawschool.csv").is_file()


def test_another_file_than_the_known_one_is_refused_and_not_kept(site, monkeypatch, tmp_path):
    serve_law_school(site, monkeypatch, known="something else")
    with pytest.raises(
        ConnectionError, match=r"(?s)lawschool.csv could not .*hash.*data_home=.*EVENHAND_DATA"
    ):
        load_law_school(tmp_path, download_if_missing=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("file_name", ["lawschool.csv", "adult.csv"])
def test_a_download_that_breaks_off_leaves_nothing_and_the_next_one_works(site, file_name, tmp_path):
    site.pages["/file"] = LAW_SCHOOL if file_name == "lawschool.csv" else UCI_ADULT
    if file_name == "lawschool.csv":
        source = Source(site.url("/file"), sha256(LAW_SCHOOL))
    else:
        known = rows_digest(adult_layout(UCI_ADULT))
        source = replace(SOURCES[file_name], url=site.url("/file"), rows_sha256=known)
    site.cut.add("/file")
    with pytest.raises(ConnectionError, match="Try again"):
        fetch(source, file_name, tmp_path)
    assert list(tmp_path.iterdir()) == []
    site.cut.clear()
    assert fetch(source, file_name, tmp_path).is_file()


def test_a_disk_that_fills_up_leaves_no_half_written_file(site, monkeypatch, tmp_path):
    serve_law_school(site, monkeypatch)

    def full(*arguments):
        raise OSError("No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space"):
        load_law_school(tmp_path, download_if_missing=True)
    assert list(tmp_path.iterdir()) == []


def test_a_page_of_words_in_the_place_of_the_rows_is_refused(site, tmp_path):
    site.pages["/adult.data"] = "<html>\n<p>Closed today, sorry.</p>\n</html>\n"
    source = replace(SOURCES["adult.csv"], url=site.url("/adult.data"))
    with pytest.raises(ConnectionError, match=r"another file.*data_home="):
        fetch(source, "adult.csv", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_server_and_no_page_say_the_ways_out(site, monkeypatch, tmp_path):
    gone = Source(site.url("/not-there"), sha256(""))
    site_url = site.url("/lawschool.csv")
    with pytest.raises(ConnectionError, match=r"404.*data_home="):
        fetch(gone, "lawschool.csv", tmp_path)
    site.close()
    monkeypatch.setattr(site, "close", lambda: None)
    with pytest.raises(ConnectionError, match=r"(?s)could not be downloaded .*data_home="):
        fetch(Source(site_url, sha256("")), "lawschool.csv", tmp_path)


def test_the_layout_of_uci_becomes_the_one_that_is_read(site, monkeypatch, tmp_path):
    site.pages["/adult.data"] = UCI_ADULT
    known = rows_digest(adult_layout(UCI_ADULT))
    source = replace(SOURCES["adult.csv"], url=site.url("/adult.data"), rows_sha256=known)
    monkeypatch.setitem(SOURCES, "adult.csv", source)
    bunch = load_adult(tmp_path, download_if_missing=True)
    assert bunch.target.tolist() == [0.28, 0.39, 0.5]  # a loss first, then a gain, then the order of the file
    assert bunch.sensitive_features.tolist() == [0, 1, 0]
    assert bunch.race.tolist() == ["White", "White", "Black"]
    monkeypatch.setitem(SOURCES, "adult.csv", replace(source, rows_sha256="0"))
    with pytest.raises(ConnectionError, match="rows are not the known ones"):
        load_adult(tmp_path / "other", download_if_missing=True)
    assert not (tmp_path / "other").exists()


def test_a_file_that_is_there_is_never_asked_for(site, monkeypatch, tmp_path):
    serve_law_school(site, monkeypatch)
    (tmp_path / "lawschool.csv").write_text(LAW_SCHOOL)
    load_law_school(tmp_path, download_if_missing=True)
    assert site.asked == []


def test_without_its_extra_a_download_names_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"evenhand\[data\]"):
        load_communities(tmp_path, download_if_missing=True)


def test_the_known_checksums_are_those_of_the_files(data_home):
    for file_name, source in SOURCES.items():
        content = files._find(file_name, data_home, False).read_bytes()
        assert source.url.startswith("https://")
        if source.sha256 is not None:
            assert hashlib.sha256(content).hexdigest() == source.sha256
        else:
            assert rows_digest(content.decode()) == source.rows_sha256


def test_our_adult_file_is_what_its_home_serves_in_our_layout(data_home):
    """The file, put back into UCI's layout, goes through the conversion and comes out byte for byte."""
    text = files._find("adult.csv", data_home, False).read_text(encoding="utf-8")
    served = "\n".join(line.replace('"', "").replace(",", ", ") for line in text.splitlines()[1:])
    assert adult_layout(served + "\n\n") == text
