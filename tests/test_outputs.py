"""Files are replaced only where they may be: devices, pipes, inputs and other people's files stay."""

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow.parquet
import pytest

import evenhand as eh
from evenhand._utils.atomic import remove_leftovers, whole_file
from evenhand.cli import main
from evenhand.tables import predict_table
from evenhand.tables.writing import write_frame
from tests.cli_support import files_of, make_table

FIT = ("--target", "outcome", "--sensitive", "group", "--id", "id", "-q")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with rows and a model."""
    home = tmp_path_factory.mktemp("outputs")
    write_frame(make_table(), str(home / "rows.csv"))
    assert main(["fit", str(home / "rows.csv"), *FIT, "-o", str(home / "model.evenhand")]) == 0
    return home


def read_later(path):
    """What a reader of a pipe gets; it waits in a thread of its own."""
    found = []
    thread = threading.Thread(target=lambda: found.append(Path(path).read_bytes()), daemon=True)
    thread.start()
    return thread, found


def command(*arguments, **options):
    called = [sys.executable, "-m", "evenhand", *map(str, arguments)]
    return subprocess.run(called, capture_output=True, check=True, **options).stdout


def test_a_named_pipe_stays_one_and_its_reader_gets_the_bytes(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    thread, found = read_later(tmp_path / "pipe")
    with whole_file(tmp_path / "pipe") as file:
        file.write(b"all of it")
    thread.join(10)
    assert found == [b"all of it"]
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
    assert files_of(tmp_path) == []


needs_devices = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can make a device"
)


@needs_devices
def test_a_device_stays_one(tmp_path, made):
    null = tmp_path / "null"
    try:
        os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        null.write_bytes(b"")
    except OSError:
        pytest.skip("this container allows no devices")
    eh.save(eh.ParityPostprocessor(), null)
    assert (
        main(
            [
                "predict",
                str(made / "model.evenhand"),
                str(made / "rows.csv"),
                "-o",
                str(null),
                "--output-format",
                "csv",
                "-q",
            ]
        )
        == 0
    )
    assert stat.S_ISCHR(os.stat(null).st_mode)


@pytest.mark.parametrize("format", ["csv", "parquet", "arrow"])
def test_rows_of_any_format_go_through_a_pipe(format, made, tmp_path):
    pipe, plain_file = tmp_path / f"pipe.{format}", tmp_path / f"file.{format}"
    os.mkfifo(pipe)
    thread, found = read_later(pipe)
    for path in (plain_file, pipe):
        assert (
            main(["predict", str(made / "model.evenhand"), str(made / "rows.csv"), "-o", str(path), "-q"])
            == 0
        )
    thread.join(10)
    assert found == [plain_file.read_bytes()]


def test_dev_stdout_and_a_dash_are_standard_output(made, tmp_path):
    rows, model = made / "rows.csv", made / "model.evenhand"
    expected = command("predict", model, rows)
    assert command("predict", model, rows, "-o", "/dev/stdout", "--output-format", "csv", "-q") == expected
    fitted = command("fit", rows, *FIT, "-o", "-", cwd=tmp_path)
    (tmp_path / "again").write_bytes(fitted)
    assert eh.load(tmp_path / "again").epsilon == eh.load(model).epsilon
    assert files_of(tmp_path) == ["again"]  # and none that is called -
    page = command("report", model, rows, "-s", "group", "-o", "-", cwd=tmp_path)
    assert page.startswith(b"<!doctype html>")


def test_a_card_of_no_known_kind_is_refused_before_the_report_is_written(made, tmp_path, capsys):
    page = tmp_path / "page.html"
    arguments = [str(made / "model.evenhand"), str(made / "rows.csv"), "-s", "group", "-o", str(page)]
    assert main(["report", *arguments, "--card", "-"]) == 2
    assert "--card is a file that ends in .md or .json: got -" in capsys.readouterr().err
    assert not page.exists()


def test_dev_stdout_adds_to_a_file_that_it_leads_to(tmp_path):
    code = "import evenhand._utils.atomic as atomic\nprint('said')\n"
    code += "with atomic.whole_file('/dev/stdout') as file: file.write(b'written')"
    (tmp_path / "log").write_text("before\n")
    with open(tmp_path / "log", "ab") as log:
        subprocess.run([sys.executable, "-c", code], stdout=log, check=True)
    assert (tmp_path / "log").read_text() == "before\nsaid\nwritten"


@needs_devices
def test_a_full_device_is_an_error_that_names_it(made, tmp_path, capsys):
    full = tmp_path / "full"  # one of its own: a failure of this test as root would destroy the system's
    try:
        os.mknod(full, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        os.close(os.open(full, os.O_WRONLY))
    except OSError:
        pytest.skip("this container allows no devices")
    arguments = [str(made / "model.evenhand"), str(made / "rows.csv"), "-o", str(full)]
    assert main(["predict", *arguments, "--output-format", "csv"]) == 5
    assert f"{full}: No space left" in capsys.readouterr().err


def test_two_results_for_standard_output_are_refused(made, capsys):
    rows = str(made / "rows.csv")
    assert main(["fit", rows, *FIT, "-o", "-", "--report", "-"]) == 2
    assert main(["fit", rows, *FIT, "-o", "-", "--json"]) == 2
    assert main(["audit", rows, "-p", "outcome", "-s", "group", "-o", "-", "--json"]) == 2
    assert capsys.readouterr().err.count("both want standard output") == 3


@pytest.mark.parametrize("forced", [(), ("--force",)])
def test_what_is_read_is_never_written(made, tmp_path, capsys, forced):
    write_frame(make_table(), str(tmp_path / "rows.csv"))
    os.link(tmp_path / "rows.csv", tmp_path / "other-name.csv")
    (tmp_path / "folder").mkdir()
    write_frame(make_table(), str(tmp_path / "folder" / "part.csv"))
    rows, model = str(tmp_path / "rows.csv"), str(made / "model.evenhand")
    before = {name: (tmp_path / name).read_bytes() for name in files_of(tmp_path)}
    for arguments in (
        ["fit", rows, *FIT, "-o", rows],
        ["fit", rows, *FIT, "-o", str(tmp_path / "m.evenhand"), "--report", str(tmp_path / "other-name.csv")],
        ["predict", model, rows, "-o", rows],
        ["predict", model, rows, "-o", model],
        ["predict", model, str(tmp_path / "folder"), "-o", str(tmp_path / "folder" / "part.csv")],
        ["audit", rows, "-p", "outcome", "-s", "group", "-o", rows],
        ["report", model, rows, "-s", "group", "-o", model],
        ["frontier", rows, "--target", "outcome", "-s", "group", "--plot", rows],
    ):
        assert main([*arguments, *forced]) == 2, arguments
        assert "would be lost: write to another file" in capsys.readouterr().err
    assert before == {name: (tmp_path / name).read_bytes() for name in files_of(tmp_path)}


def test_a_table_is_not_written_over_itself(tmp_path):
    people = eh.datasets.make_population(300, n_groups=2, random_state=0)
    columns = {"score": people.scores, "a": people.group_proba[:, 0], "b": people.group_proba[:, 1]}
    path = str(tmp_path / "rows.parquet")
    write_frame(pyarrow.table(columns), path)
    model = eh.ParityPostprocessor().fit(people.scores, people.group_proba)
    with pytest.raises(ValueError, match="would be lost: give another target"):
        predict_table(model, path, path, scores="score", group_proba=["a", "b"])
    assert pyarrow.parquet.read_table(path).column_names == ["score", "a", "b"]


def test_files_of_others_are_replaced_only_with_force(made, tmp_path, capsys):
    model, rows = str(made / "model.evenhand"), str(made / "rows.csv")
    theirs = tmp_path / "theirs.csv"
    theirs.write_text("my,own\n1,2\n")
    for arguments in (
        ["predict", model, rows, "-o", str(theirs)],
        ["fit", rows, *FIT, "-o", str(theirs)],
        ["audit", rows, "-p", "outcome", "-s", "group", "-o", str(theirs)],
        ["report", model, rows, "-s", "group", "-o", str(theirs)],
    ):
        assert main(arguments) == 2
        assert "--force replaces it" in capsys.readouterr().err
    assert theirs.read_text() == "my,own\n1,2\n"
    assert main(["predict", model, rows, "-o", str(theirs), "--force", "-q"]) == 0
    assert theirs.read_text().startswith("id,")


def test_what_evenhand_wrote_and_empty_files_are_replaced(made, tmp_path):
    model, rows = str(made / "model.evenhand"), str(made / "rows.csv")
    page, cards = str(tmp_path / "page.html"), [str(tmp_path / name) for name in ("card.md", "card.json")]
    (tmp_path / "scored.csv").touch()
    for _ in range(2):
        assert main(["fit", rows, *FIT, "-o", str(tmp_path / "m.evenhand")]) == 0
        asked = [
            "report",
            model,
            rows,
            "-s",
            "group",
            "-o",
            page,
            "--card",
            cards[0],
            "--card",
            cards[1],
            "-q",
        ]
        assert main(asked) == 0
    assert main(["predict", model, rows, "-o", str(tmp_path / "scored.csv"), "-q"]) == 0


def test_the_demo_takes_no_folder_of_another(tmp_path, capsys):
    (tmp_path / "people.csv").write_text("my own people")
    assert main(["demo", "-o", str(tmp_path), "-q"]) == 2
    assert "--force replaces it" in capsys.readouterr().err
    assert (tmp_path / "people.csv").read_text() == "my own people"


def test_nobody_else_may_read_what_will_replace_a_secret_file(tmp_path):
    secret = tmp_path / "secret"
    secret.touch(0o600)
    with whole_file(secret) as file:
        file.write(b"new")
        file.flush()
        (beside,) = (path for path in tmp_path.iterdir() if path != secret)
        assert stat.S_IMODE(beside.stat().st_mode) == 0o600
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    public = tmp_path / "public"
    public.touch(0o664)
    public.chmod(0o664)
    with whole_file(public) as file:
        file.write(b"new")
    assert stat.S_IMODE(public.stat().st_mode) == 0o664


def test_leftovers_of_other_files_stay(tmp_path):
    for name in (".h.0123456789abcdef.tmp", ".h.other.0123456789abcdef.tmp", ".h.notes.tmp", ".h.tmp"):
        (tmp_path / name).touch()
    remove_leftovers(tmp_path / "h")
    assert files_of(tmp_path) == [".h.notes.tmp", ".h.other.0123456789abcdef.tmp", ".h.tmp"]


@pytest.mark.parametrize("name", ["公平" * 42, "x" * 255, "é" * 127], ids=["CJK", "ASCII", "accents"])
def test_names_as_long_as_a_file_system_takes(name, tmp_path):
    twin = name[:-1]
    with whole_file(tmp_path / name) as file:
        file.write(b"whole")
        live = set(files_of(tmp_path))
        remove_leftovers(tmp_path / twin)
        assert set(files_of(tmp_path)) == live  # which is of another name, though their first 100 bytes agree
    assert (tmp_path / name).read_bytes() == b"whole"
    assert files_of(tmp_path) == [name]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_closed_terminal_leaves_nothing_behind(number, made, tmp_path):
    code = (
        "import signal, sys, time\nfrom evenhand.cli import main\nfrom evenhand.cli.commands import predict\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # which nohup around these tests would hide
        "def slow(*_):\n    print('ready', flush=True); time.sleep(60); yield\n"
        "predict.Scoring.batches = slow\nsys.exit(main(sys.argv[1:]))"
    )
    called = [sys.executable, "-c", code, "predict", str(made / "model.evenhand"), str(made / "rows.csv")]
    with subprocess.Popen([*called, "-o", str(tmp_path / "out.csv")], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        assert len(files_of(tmp_path)) == 1
        process.send_signal(number)
        assert process.wait(30) == 128 + number
    assert files_of(tmp_path) == []


def test_nohup_outlives_its_terminal(made, tmp_path):
    code = (
        "import os, signal, sys\nfrom evenhand.cli import main\nfrom evenhand.cli.commands import info\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\nloaded = info.load_model\n"
        "def hang_up(*a): os.kill(os.getpid(), signal.SIGHUP); return loaded(*a)\n"
        "info.load_model = hang_up\nsys.exit(main(sys.argv[1:]))"
    )
    subprocess.run([sys.executable, "-c", code, "info", str(made / "model.evenhand"), "-q"], check=True)
