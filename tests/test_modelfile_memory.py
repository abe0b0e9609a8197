"""Small files take little memory, and what needs no trust reads no memory that is not its own."""

import json
import resource
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVC, SVR, NuSVR, OneClassSVM

import evenhand as eh
from evenhand.estimators.models import default_classifier
from evenhand.modelfile import ModelFileError, container, load, save
from evenhand.modelfile.arrays import write_npy
from evenhand.modelfile.container import Container, pack
from evenhand.modelfile.memory_safety import find_memory_fault

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 3)), RNG.normal(size=60)
GROUPS = RNG.integers(0, 2, 60)
MEASURE = """
import resource, sys, time
import evenhand as eh
from evenhand.modelfile import ModelFileError
before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
try:
    eh.load(sys.argv[1])
except ModelFileError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, time.perf_counter() - start, error)
"""


@pytest.fixture
def forge(tmp_path):
    """Save a model, change its tree as text and its members, and write it with checksums that hold."""

    def write(model, change):
        path = tmp_path / "model.evenhand"
        save(model, path)
        good = Container(path.read_bytes())
        members = good.unpack()
        change(members)
        path.write_bytes(pack(members, good.manifest))
        return path

    return write


def fitted_step():
    people = eh.datasets.make_population(200, n_groups=2, random_state=0)
    return eh.ParityPostprocessor(atoms=5).fit(people.scores, people.group_proba)


@pytest.mark.parametrize("text", ["[]", "{}", '"a"', "0.5"])
def test_a_small_file_of_many_values_is_refused_with_little_memory(text, tmp_path):
    save(fitted_step(), tmp_path / "good.evenhand")
    good = Container((tmp_path / "good.evenhand").read_bytes())
    many = f'{{"model": [{", ".join([text] * (2**22 // len(text)))}]}}'.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(container, "count_nodes", lambda text: 0)  # a writer that keeps to no rule
        data = pack({**good.unpack(), "model.json": many}, good.manifest)
    assert len(data) < 40_000
    path = tmp_path / "bomb.evenhand"
    path.write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True
    )
    kilobytes, seconds, words = done.stdout.split(maxsplit=2)
    assert "no saved model is like that" in words
    assert int(kilobytes) < 100_000
    assert float(seconds) < 10


def test_a_model_of_many_equal_labels_is_saved_so_that_it_can_be_read(tmp_path):
    model = fitted_step()
    model.notes_ = [[]] * 300_000
    save(model, tmp_path / "model.evenhand")
    assert load(tmp_path / "model.evenhand").notes_ == model.notes_


def test_a_forged_stream_asks_for_no_more_memory_than_its_file_suggests(forge):
    people = eh.datasets.make_population(40_000, n_groups=2, random_state=0)
    model = eh.ParityPostprocessor(atoms=5).partial_fit(people.scores, people.group_proba)

    def widen(members):
        tree = json.loads(members["model.json"])
        step = tree["model"]["fitted"]["stream_"]["object"]["fields"]["step"]["object"]["fields"]
        members["arrays/900.npy"] = write_npy(np.arange(1e5))
        members["arrays/901.npy"] = write_npy(np.full(10**5, 1e-5))
        step["grid"]["object"]["fields"]["atoms"] = {"array": "arrays/900.npy"}
        step["grid"]["object"]["fields"]["bounds"] = {"tuple": [0.0, 99999.0]}
        step["group_prior"] = step["epsilon"] = {"array": "arrays/901.npy"}
        members["model.json"] = json.dumps(tree).encode()

    path = forge(model, widen)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (32 * 2**30, hard))
    try:
        with pytest.raises(ModelFileError, match="it has more than 4096 groups"):
            load(path)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_two_files_put_together_are_no_file(tmp_path):
    save(fitted_step(), tmp_path / "model.evenhand")
    data = (tmp_path / "model.evenhand").read_bytes()
    for together in (data + data, data[:100] + data, b"PK\x03\x04" + data):
        (tmp_path / "both").write_bytes(together)
        with pytest.raises(ModelFileError):
            load(tmp_path / "both")


def machines():
    with np.errstate(all="ignore"):
        yield SVR().fit(X, Y)
        yield NuSVR(kernel="linear").fit(X, Y)
        yield SVR(kernel="precomputed").fit(X @ X.T, Y)
        yield SVR().fit(scipy.sparse.csr_matrix(X), Y)
        yield SVC().fit(X, GROUPS)
        yield SVC().fit(X, RNG.integers(0, 4, 60))
        yield OneClassSVM().fit(X)


def test_machines_as_they_are_fitted_have_no_fault():
    assert [find_memory_fault([machine]) for machine in machines()] == [None] * 7


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("_dual_coef_", lambda array: array[:, :1]),
        ("dual_coef_", lambda array: array[:, :1]),
        ("support_vectors_", lambda array: array[:1]),
        ("support_vectors_", lambda array: array[:, :1]),
        ("support_", lambda array: array + 10_000),
        ("support_", lambda array: array[:1]),
        ("shape_fit_", lambda shape: (shape[0], 99)),
        ("_n_support", lambda array: array * 5),
        ("_intercept_", lambda array: array[:0]),
        ("_probA", lambda array: np.zeros(9)),
        ("_intercept_", lambda array: None),
    ],
)
def test_a_machine_with_a_part_cut_off_is_refused(name, change):
    machine = SVC().fit(X, GROUPS)
    setattr(machine, name, change(getattr(machine, name)))
    assert "SVC is damaged or forged" in find_memory_fault({"deep": [(machine,)]})


def test_a_machine_of_regression_that_counts_many_classes_is_refused():
    machine = SVR().fit(X, Y)  # predict would read thousands of intercepts, of which there is one
    machine._n_support = np.append(machine._n_support[:1], np.zeros(3000, np.int32)).astype(np.int32)
    assert "SVR is damaged or forged" in find_memory_fault(machine)


def test_a_cut_machine_in_a_model_file_is_refused_though_it_needs_no_trust(tmp_path):
    model = eh.ParityRegressor(SVR(), default_classifier(), calibration=None, confidence=None)
    model.fit(X, Y, sensitive_features=GROUPS)
    path = tmp_path / "model.evenhand"
    save(model, path)
    load(path)
    machine = model.estimator_
    machine._dual_coef_ = machine._dual_coef_[:, :1].copy()
    save(model, path)
    with pytest.raises(ModelFileError, match=r"SVR is damaged or forged \(its _dual_coef_"):
        load(path)


def test_a_sparse_matrix_that_points_outside_itself_is_refused():
    model = KNeighborsRegressor(algorithm="brute").fit(scipy.sparse.csr_matrix(X), Y)
    assert find_memory_fault(model) is None
    model._fit_X.indices[3] = 10**6
    assert "csr_matrix is damaged or forged" in find_memory_fault(model)
