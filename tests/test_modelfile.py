"""Model files: what comes back is what was saved, bit for bit, and a file never runs code."""

import itertools
import json
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression

from evenhand import ParityPostprocessor, datasets
from evenhand.exceptions import ConvergenceWarning
from evenhand.modelfile import FORMAT_VERSION, ModelFileError, load, save, saving
from evenhand.modelfile.container import Container, pack
from evenhand.solvers import AcSa2, Batch, Sgd3, Status

RNG = np.random.default_rng(0)
PROBA = RNG.dirichlet([1.0, 2.0, 0.5], size=200)
SCORES = 50_000 + 9_000 * PROBA[:, 0] + 4_000 * RNG.normal(size=200)


def fit(group_proba=PROBA, **options):
    return ParityPostprocessor(**{"atoms": 15, "epsilon": 0.05, **options}).fit(SCORES, group_proba)


def assert_same(model, again, group_proba=PROBA):
    """All predictions have the same bits, and the parameters print alike."""
    assert type(again) is type(model)
    assert repr(again) == repr(model)
    for predict in ("predict_pmf", "predict", "predict_mean", "predict_quantile"):
        expected = getattr(model, predict)(SCORES, group_proba)
        assert getattr(again, predict)(SCORES, group_proba).tobytes() == expected.tobytes()
    ids = np.arange(len(SCORES))
    assert (again.predict(SCORES, group_proba, ids=ids) == model.predict(SCORES, group_proba, ids=ids)).all()
    assert str(again.certificate_) == str(model.certificate_)
    assert again.result_.status is model.result_.status


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("modelfile") / "model.evenhand"
    save(fit(), path)
    return path


@pytest.fixture
def forge(saved, tmp_path):
    """Write a file that is whole, with checksums that hold, but not what `save` wrote."""

    def write(change=lambda tree, members, manifest: None):
        container = Container(saved.read_bytes())
        members, manifest = container.unpack(), dict(container.manifest)
        tree = json.loads(members.pop("model.json"))
        change(tree, members, manifest)
        path = tmp_path / "forged.evenhand"
        path.write_bytes(pack({"model.json": json.dumps(tree).encode(), **members}, manifest))
        return path

    return write


OPTIONS = {
    "pmf": {"parity": "pmf"},
    "mean": {"parity": "mean", "epsilon": 300},
    "epsilon by group": {"epsilon": {2: 0.3, 0: 0.01, 1: np.float32(0.05)}},
    "epsilon as an array": {"epsilon": np.array([0.01, 0.02, 0.3])},
    "epsilon as a tuple": {"epsilon": (0.01, 0.02, 0.3)},
    "automatic atoms": {"atoms": "auto", "beta": "auto", "bounds": "auto"},
    "own atoms": {"atoms": np.linspace(4e4, 7e4, 9), "beta": 33.3},
    "own bounds": {"bounds": (0, 1e5), "atoms": np.int64(21)},
    "warm start": {"warm_start": True, "tol": 1e-4, "max_iter": 400},
    "a key of one's own": {"random_state": 2**70 + 1},
    "a NumPy key": {"random_state": np.uint32(7)},
    "lbfgs": {"solver": "lbfgs"},
    "lp": {"solver": "lp"},
    "a solver object": {"solver": Batch(tol=1e-5, first_rows=64)},
    "a nested solver": {"solver": Sgd3(inner=AcSa2(), n_steps=2000, random_state=3)},
    "sgd": {"solver": "sgd", "max_iter": 1000, "random_state": 1},
}


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_a_model_comes_back_bit_for_bit(options, tmp_path):
    model = fit(**options)
    save(model, tmp_path / "model")
    assert_same(model, load(tmp_path / "model"))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_labels_of_frames_come_back(frame, tmp_path):
    proba = frame(dict(zip(["women", "men", "näkemättä"], PROBA.T, strict=True)))
    model = fit(proba, epsilon={"men": 0.1, "women": 0.01, "näkemättä": 0.2})
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.groups_.tolist() == ["women", "men", "näkemättä"]
    assert_same(model, again, proba)


def test_a_loaded_model_fits_again_as_the_first_did(saved, tmp_path):
    again = load(saved).fit(SCORES, PROBA)
    assert_same(fit(), again)


def test_a_model_without_a_fit_comes_back_without_one(tmp_path):
    save(ParityPostprocessor(epsilon=0.1), tmp_path / "model")
    again = load(tmp_path / "model")
    assert repr(again) == "ParityPostprocessor(epsilon=0.1)"
    assert not hasattr(again, "policy_")


def test_a_solver_that_did_not_converge_says_so_after_loading(tmp_path):
    with pytest.warns(ConvergenceWarning):
        model = fit(max_iter=1)
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").result_.status is Status.MAX_ITER


def test_another_process_predicts_the_same_bits(tmp_path):
    model = fit(random_state=5)
    save(model, tmp_path / "model")
    np.savez(tmp_path / "rows.npz", scores=SCORES, proba=PROBA)
    code = (
        "import sys, numpy as np; from evenhand.modelfile import load; rows = np.load(sys.argv[2]);"
        "model = load(sys.argv[1]); args = rows['scores'], rows['proba'];"
        "print(model.predict(*args).tobytes().hex(), model.predict_pmf(*args).tobytes().hex(),"
        " 'skops' in sys.modules)"
    )
    command = [sys.executable, "-c", code, tmp_path / "model", tmp_path / "rows.npz"]
    draws, pmf, needs_skops = subprocess.run(
        command, capture_output=True, text=True, check=True
    ).stdout.split()
    assert draws == model.predict(SCORES, PROBA).tobytes().hex()
    assert pmf == model.predict_pmf(SCORES, PROBA).tobytes().hex()
    assert needs_skops == "False"


def test_the_same_model_gives_the_same_bytes(saved, tmp_path):
    save(load(saved), tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()


def test_arrays_that_were_one_are_one_again(saved):
    again = load(saved)
    assert again.atoms_ is again.policy_.grid.atoms
    assert again.multipliers_ is again.result_.multipliers
    assert again.atoms_.flags.writeable


@pytest.mark.parametrize("generator", [np.random.default_rng(0), np.random.RandomState(0)])
def test_a_generator_is_refused_with_a_way_out_that_keeps_the_draws(generator, tmp_path):
    model = fit(random_state=generator)
    with pytest.raises(TypeError, match=r"random_state is a .*Set an integer"):
        save(model, tmp_path / "model")
    draws = model.predict(SCORES, PROBA)
    save(model.set_params(random_state=0), tmp_path / "model")
    assert (load(tmp_path / "model").predict(SCORES, PROBA) == draws).all()


@pytest.mark.parametrize(
    "value", [LinearRegression(), {"a": 1}, None, type("Mine", (ParityPostprocessor,), {})()]
)
def test_save_takes_models_of_this_package_only(value, tmp_path):
    with pytest.raises(TypeError, match="save takes an evenhand model"):
        save(value, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


# writing


def test_a_failure_leaves_the_old_file_and_nothing_else(saved, tmp_path, monkeypatch):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(saving.os, step, lambda *_: (_ for _ in ()).throw(OSError("no space left")))
            with pytest.raises(OSError, match="no space left"):
                save(load(saved), path)
        assert path.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [path]


def test_saving_replaces_a_file_and_keeps_its_mode_and_its_link(saved, tmp_path):
    path, link = tmp_path / "model", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    save(load(saved), link)
    assert link.is_symlink()
    assert path.read_bytes() == saved.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o640
    with pytest.raises(IsADirectoryError, match="is a folder"):
        save(load(saved), tmp_path)


# damage


def outcome(data, path, expected):
    """What `load` makes of `data`: an error about the file, or the very model."""
    path.write_bytes(data)
    try:
        again = load(path)
    except ModelFileError:
        return "refused"
    assert again.predict_pmf(SCORES, PROBA).tobytes() == expected
    return "same"


def test_flipped_bytes_are_refused_or_harmless(saved, tmp_path):
    data, expected = saved.read_bytes(), load(saved).predict_pmf(SCORES, PROBA).tobytes()
    rng = np.random.default_rng(0)
    seen = {"refused": 0, "same": 0}
    for position in [*range(64), *range(len(data) - 128, len(data)), *rng.integers(0, len(data), size=400)]:
        flipped = bytearray(data)
        flipped[position] ^= int(rng.integers(1, 256))
        seen[outcome(bytes(flipped), tmp_path / "flipped", expected)] += 1
    assert seen["refused"] > seen["same"] > 0  # the same: dates and the like, which hold nothing


def test_truncated_files_are_refused(saved, tmp_path):
    data = saved.read_bytes()
    lengths = np.random.default_rng(1).integers(0, len(data), size=150)
    for length in [0, 1, 3, 4, len(data) - 1, *lengths]:
        assert outcome(data[:length], tmp_path / "cut", b"") == "refused"


def test_files_of_other_kinds_are_refused_by_name(saved, tmp_path):
    path = tmp_path / "file"
    for data, message in [
        (b"", "no zip header"),
        (b"a,b\n1,2\n", "no zip header"),
        (pickle.dumps([1]), "looks like a pickle"),
        (saved.read_bytes()[:1000], "cut short or damaged"),
    ]:
        path.write_bytes(data)
        with pytest.raises(ModelFileError, match=message):
            load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("anything", "else")
    with pytest.raises(ModelFileError, match=r"no manifest\.json"):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")


def set_manifest(**entries):
    return lambda tree, members, manifest: manifest.update(entries)


def test_a_newer_format_is_refused_with_both_versions(forge):
    newer = FORMAT_VERSION + 1
    path = forge(set_manifest(format_version=newer, evenhand="9.9"))
    message = rf"version {newer}, written by evenhand 9\.9.*reads version {FORMAT_VERSION}\. Upgrade evenhand"
    with pytest.raises(ModelFileError, match=message):
        load(path)


@pytest.mark.parametrize("version", [1, 2])
def test_formats_before_the_first_release_are_refused_with_a_way_out(forge, version):
    path = forge(set_manifest(format_version=version))
    message = rf"format version {version}.*reads version {FORMAT_VERSION}\. Fit the model again"
    with pytest.raises(ModelFileError, match=message):
        load(path)


def test_a_stored_file_predicts_what_it_predicted_when_it_was_written(project_root):
    step = load(project_root / "tests" / "golden" / "step-0.2.0.evenhand")
    rows = datasets.make_population(400, n_groups=3, random_state=20)
    draws = step.predict(rows.scores[:6], rows.group_proba[:6])
    written = [0.92946982, 0.98121504, -0.31241541, 0.92946982, 0.5672533, 0.46376286]  # also by 0.1.0.dev0
    np.testing.assert_allclose(draws, written, atol=5e-9)
    assert step.certificate_.out_of_sample.epsilon.tolist() == [0.05] * 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_manifest(format_version="1"), "no format version"),
        (set_manifest(format_version=True), "no format version"),
        (set_manifest(format_version=0), "no format version"),
        (set_manifest(format="another"), "another format"),
        (lambda tree, members, manifest: members.update({"../../evil.npy": b""}), "no model file does"),
        (lambda tree, members, manifest: members.update({"/etc/passwd": b""}), "no model file does"),
        (lambda tree, members, manifest: members.pop("arrays/0.npy"), "not in the file"),
        (lambda tree, members, manifest: tree.update(more=1), "does not hold a model"),
    ],
)
def test_a_file_that_breaks_the_format_is_refused(change, message, forge):
    with pytest.raises(ModelFileError, match=message):
        load(forge(change))


def rezip(path, drop=(), add=(), compression=zipfile.ZIP_DEFLATED):
    """The same archive with some members dropped and others added, the manifest untouched."""
    with zipfile.ZipFile(path) as archive:
        contents = [(name, archive.read(name)) for name in archive.namelist() if name not in drop]
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in itertools.chain(contents, add):
            archive.writestr(name, data)
    return path


def test_members_that_were_lost_added_or_changed_are_named(forge):
    with pytest.raises(ModelFileError, match=r"has lost arrays/0\.npy"):
        load(rezip(forge(), drop=["arrays/0.npy"]))
    with pytest.raises(ModelFileError, match=r"holds arrays/999\.npy, which its manifest does not list"):
        load(rezip(forge(), add=[("arrays/999.npy", b"")]))
    with pytest.raises(ModelFileError, match=r"arrays/0\.npy is not what was saved"):
        load(rezip(forge(), drop=["arrays/0.npy"], add=[("arrays/0.npy", b"other")]))
    with pytest.raises(ModelFileError, match="packed otherwise"):
        load(rezip(forge(), compression=zipfile.ZIP_BZIP2))
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = rezip(forge(), add=[("arrays/0.npy", b"twice")])
    with pytest.raises(ModelFileError, match="two members of the same name"):
        load(path)


def test_a_zip_bomb_is_refused_before_it_is_unpacked(forge):
    path = rezip(forge(), add=[("arrays/999.npy", bytes(2**27))])
    assert path.stat().st_size < 2**18
    with pytest.raises(ModelFileError, match="would unpack to"):
        load(path)


def test_a_model_that_compresses_like_a_bomb_is_saved_without_compression(tmp_path):
    model = ParityPostprocessor(atoms=np.zeros(2**22))
    save(model, tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "model") as archive:
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
    assert (load(tmp_path / "model").atoms == model.atoms).all()
