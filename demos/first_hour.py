"""The first hour of a new user, line by line, on people made up here: what one does, what one sees, a check.

python demos/first_hour.py         all sixteen lines; ends with 1 where one does not hold
python demos/first_hour.py 1 6 10  some of them
"""

import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import evenhand as eh
from evenhand import exceptions
from evenhand.cli import main as command_line

mpl.use("Agg")
FEATURES = ["years", "test", "town", "school"]
TOWNS = np.array(["North", "Mill", "Harbour", "Hill"])
NEW = 20_000  # people to measure on: chance then shows about .01
FAILED: list[str] = []


def make_people(n_rows: int, seed: int) -> pd.DataFrame:
    """People with a sex and an origin that towns, schools and years of work tell something of."""
    rng = np.random.default_rng(seed)
    woman, migrant = rng.random(n_rows) < 0.45, rng.random(n_rows) < 0.3
    years = rng.gamma(4.0, 3.0, n_rows) * np.where(woman, 0.75, 1.0)
    test = rng.normal(100.0, 15.0, n_rows) - 6.0 * migrant
    town = TOWNS[np.clip(rng.binomial(3, np.where(migrant, 0.65, 0.35)), 0, 3)]
    school = np.where(rng.random(n_rows) < np.where(woman, 0.7, 0.35), "arts", "trade")
    wage = 18.0 + 0.8 * years + 0.12 * (test - 100.0) + 2.0 * (school == "trade") - 2.0 * migrant
    wage += rng.normal(0.0, 2.5, n_rows)
    return pd.DataFrame(
        {
            "id": np.arange(n_rows) + 1_000_000 * seed,
            "years": years.round(1),
            "test": test.round(),
            "town": town,
            "school": school,
            "sex": np.where(woman, "woman", "man"),
            "origin": np.where(migrant, "abroad", "here"),
            "wage": wage.round(2),
            "hired": np.where(wage + rng.normal(0.0, 2.0, n_rows) > 29.0, "yes", "no"),
        }
    )


PEOPLE, FRESH = make_people(3000, 1), make_people(NEW, 2)


def check(told: str, holds: bool) -> None:
    """Print what is seen, and remember where it is not so."""
    print(f"  {'ok   ' if holds else 'WRONG'}  {told}")
    if not holds:
        FAILED.append(told)


def caught(work: Callable[[], object]) -> tuple[object, dict[str, str]]:
    """What a call gives, and its warnings by their names."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = work()
    return found, {warning.category.__name__: str(warning.message) for warning in seen}


def refused(work: Callable[[], object]) -> str:
    """The message of a call that must fail."""
    try:
        work()
    except (ValueError, TypeError) as error:
        return str(error)
    return ""


def gap(model: object, groups: object = FRESH["sex"], **more: object) -> float:
    """The largest distance between a group and the population on new data."""
    pmf = model.predict_pmf(FRESH[FEATURES], **more)
    return max(eh.metrics.ks_unfairness(pmf, groups).values())


def learn(model: object, X: object, y: object, **given: object) -> dict[str, str]:
    """Fit a model; what it warns of, by the names of the warnings."""
    return caught(lambda: model.fit(X, y, **given))[1]


def fit(people: pd.DataFrame = PEOPLE, groups: object = None, y: str = "wage", **settings: object) -> object:
    """A regressor or a classifier of the made-up people, with the default models."""
    kind = eh.ParityClassifier if y == "hired" else eh.ParityRegressor
    groups = people["sex"] if groups is None else groups
    model = kind(**{"epsilon": 0.06, "random_state": 0, **settings})
    learn(model, people[FEATURES], people[y], sensitive_features=groups)
    return model


def line_1() -> None:
    """Groups known for some rows only."""
    known = PEOPLE["sex"].where(np.arange(len(PEOPLE)) % 3 > 0)
    model = fit(groups=known)
    check(f"print(model): {str(model).splitlines()[-1]}", "2,000 of 3,000" in str(model))
    seen = gap(model)
    check(f"tolerance 0.06, distance on {NEW:,} new rows {seen:.3f}", seen < 0.07)


def line_2() -> None:
    """Probabilities of groups instead of labels."""
    others, proxies = make_people(3000, 3), {}
    for told, columns in {"school and town": ["school", "town"], "all that is known": FEATURES}.items():
        model = eh.table_pipeline(LogisticRegression(), others[columns]).fit(others[columns], others["sex"])
        proba = model.predict_proba(PEOPLE[columns])
        proxies[told] = pd.DataFrame(proba, columns=model.classes_)
    coarse, fine = proxies.values()
    found, _ = caught(lambda: eh.metrics.unfairness_bounds(PEOPLE["wage"], coarse))
    truth = eh.metrics.ks_unfairness(PEOPLE["wage"], PEOPLE["sex"])
    for group, (guess, low, high) in found.to_dict().items():
        told = f"{group}, by school and town: {guess:.3f} if they tell all, {low:.3f} to {high:.3f} whatever"
        check(f"{told} they hide; in truth {truth[group]:.3f}", low <= truth[group] <= high)
    model = eh.ParityRegressor(epsilon=0.06)
    told = learn(model, PEOPLE[FEATURES], PEOPLE["wage"], sensitive_features=fine)
    check("fit warns of what a proxy can hide", "ProxyWarning" in told)
    seen = gap(model)
    check(
        f"by probabilities given all features: tolerance 0.06, distance on new data {seen:.3f}", seen < 0.08
    )


def line_3() -> None:
    """Groups known of other people."""
    others = make_people(2000, 3)
    model = eh.ParityRegressor(epsilon=0.06, random_state=0)
    learn(model, PEOPLE[FEATURES], PEOPLE["wage"], sensitive_data=(others[FEATURES], others["sex"]))
    seen = gap(model)
    check(f"groups of 2,000 other people: tolerance 0.06, distance on new data {seen:.3f}", seen < 0.075)


def line_4() -> None:
    """With the group and without, side by side in the report."""
    unaware, aware = fit(), fit(aware=True)
    with tempfile.TemporaryDirectory() as folder:
        card = Path(folder, "card.md")
        given = {"sensitive_features": FRESH["sex"], "compare": aware}
        caught(lambda: eh.model_card(unaware, FRESH[FEATURES], FRESH["wage"], path=card, **given))
        told = card.read_text().split("## With the group, or without")[1].split("##")[0]
    for line in told.splitlines():
        if line.startswith("| "):
            print(f"         {line}")
    check("distance, risk, best constant, R2 and rates of both", "One number for everybody" in told)
    check("when the law may forbid which", "forbidden" in told and "lawyer" in told)
    wage, atoms = FRESH["wage"], unaware.atoms_
    pmf = aware.predict_pmf(FRESH[FEATURES], sensitive_features=FRESH["sex"])
    costs = (
        eh.metrics.risk(wage, unaware.predict_pmf(FRESH[FEATURES]), atoms),
        eh.metrics.risk(wage, pmf, aware.atoms_),
    )
    check(f"risk {costs[0]:.2f} without the group, {costs[1]:.2f} with it", costs[1] < costs[0])


def line_5(n_rows: int = 30_000) -> None:
    """Exact parity with much data: measured here, tested by the benchmark on 300,000 rows."""
    train, new = (
        eh.datasets.make_population(n, n_groups=2, separation=1.5, random_state=n) for n in (n_rows, 50_000)
    )
    boosted = HistGradientBoostingRegressor(max_iter=50)
    for name, settings in {"linear": {}, "boosted trees": {"estimator": boosted}}.items():
        model = eh.ParityRegressor(epsilon=0.0, random_state=0, **settings)
        started = time.perf_counter()
        learn(model, train.data, train.target, sensitive_features=train.sensitive_features)
        seconds = time.perf_counter() - started
        pmf = model.predict_pmf(new.data)
        found = eh.audit(pmf, new.sensitive_features, atoms=model.atoms_, n_boot=50)
        seen, chance = found.measures["ks"].estimate.max(), found.floors["ks"].mean.max()
        told = f"{name}: {n_rows} rows, {seconds:.1f} s, epsilon 0: {seen:.4f} seen, {chance:.4f} by chance"
        check(told, seen < 0.05)


def line_6() -> None:
    """Rates and impact ratios with intervals."""
    people = FRESH[["sex", "origin"]].copy()
    people.loc[::50] = None  # did not say
    found = eh.metrics.selection_rates(FRESH["hired"], people, selected="yes")
    print("         " + str(found).replace("\n", "\n         "))
    hired = (FRESH["hired"] == "yes").groupby(people["sex"]).mean()
    ratio = found.frame("pandas").set_index("group").loc["woman", "impact_ratio"]
    check(f"by hand {hired['woman'] / hired['man']:.3f}", np.isclose(ratio, hired["woman"] / hired["man"]))
    check("those of unknown group are counted", found.tables[0].n_unknown == NEW // 50)
    audit = eh.audit(FRESH["wage"], FRESH["sex"], threshold=25.0, n_boot=20)
    check(
        "audit tells the distance between two groups beside", "ks" in audit.pairs and audit.rates is not None
    )


def line_7() -> None:
    """Parity of the share above a threshold alone."""
    whole, share = fit(), fit(parity=eh.Thresholds([25.0]))
    above = [
        model.predict_pmf(FRESH[FEATURES])[:, model.atoms_ > 25.0].sum(axis=1) for model in (whole, share)
    ]
    rates = [np.ptp([each[FRESH["sex"] == sex].mean() for sex in ("woman", "man")]) for each in above]
    costs = [eh.metrics.risk(FRESH["wage"], m.predict_pmf(FRESH[FEATURES]), m.atoms_) for m in (whole, share)]
    told = f"shares above 25 differ by {rates[1]:.3f}; risk {costs[1]:.2f}, with the whole law {costs[0]:.2f}"
    check(told, rates[1] < 0.14 and costs[1] < costs[0])


def line_8() -> None:
    """Levelling down is named, and can be held off."""
    rare = PEOPLE.assign(hired=np.where(PEOPLE["wage"] > 32.0, "yes", "no"))
    groups, asked = np.where(PEOPLE["years"] > 10, "old", "young"), {"epsilon": 0.01, "random_state": 0}
    told = learn(eh.ParityClassifier(**asked), rare[FEATURES], rare["hired"], sensitive_features=groups)
    check(told.get("LevellingDownWarning", "no warning")[:96], "LevellingDownWarning" in told)
    keeps = eh.ParityClassifier(min_rate="before", **asked)
    learn(keeps, rare[FEATURES], rare["hired"], sensitive_features=groups)
    before, after = keeps.price_.rates([1])
    check(f'min_rate="before": {before:.1%} before, {after:.1%} after', after > 0.98 * before)


def line_9() -> None:
    """The price in the open."""
    model, test = eh.ParityRegressor(random_state=0), (FRESH[FEATURES], FRESH["wage"], FRESH["sex"])
    given = {"sensitive_features": PEOPLE["sex"], "epsilons": [0.02, 0.1, 0.3], "test": test}
    path, _ = caught(lambda: eh.frontier(model, PEOPLE[FEATURES], PEOPLE["wage"], **given))
    table = path.frame("pandas")
    print("         " + table[["epsilon", "risk", "r2"]].to_string(index=False).replace("\n", "\n         "))
    check("R2 beside the risk, and it grows with epsilon", bool(table["r2"].is_monotonic_increasing))
    model = eh.ParityRegressor(epsilon=0.0, confidence=None)
    told = learn(model, PEOPLE[["school"]], PEOPLE["wage"], sensitive_features=PEOPLE["school"])
    check(told.get("PriceWarning", "no warning")[:80], "PriceWarning" in told)


def line_10() -> None:
    """Everything is checked before any model is fitted."""
    X, y, sex = PEOPLE[FEATURES], PEOPLE["wage"], PEOPLE["sex"]

    def no(told: str, message: str, groups: object = sex, **settings: object) -> None:
        started = time.perf_counter()
        said = refused(lambda: eh.ParityRegressor(**settings).fit(X, y, sensitive_features=groups))
        quick = time.perf_counter() - started < 1.0
        check(f"{told}: {said[:88]}", message in said and quick and len(said) < 700)

    no('parity="kss"', "Unknown parity", parity="kss")
    no("a classifier as estimator", "is a classifier", estimator=LogisticRegression())
    no("groups in another order", "another order", groups=sex.sample(frac=1.0, random_state=0))
    no("numbers as groups", "number", groups=PEOPLE["wage"])
    check('parity="ks" is "cdf"', fit(parity="ks").certificate_.parity == "cdf")
    told = learn(eh.ParityRegressor(epsilon=1.0), X, y, sensitive_features=sex)
    check("epsilon=1 asks for nothing", "InactiveConstraintWarning" in told)
    told = learn(eh.ParityRegressor(), X.assign(s=sex), y, sensitive_features=sex)
    check("the group among the features", "GroupInFeaturesWarning" in told)


def line_11() -> None:
    """The default models take text and sparse columns."""
    check(f"columns {', '.join(FEATURES)}: fitted", np.isfinite(gap(fit())))
    X = sparse.csr_matrix(pd.get_dummies(PEOPLE[FEATURES]).to_numpy(float))
    model = eh.ParityRegressor()
    learn(model, X, PEOPLE["wage"], sensitive_features=PEOPLE["sex"])
    check("a sparse matrix: fitted", len(model.predict(X[:5])) == 5)


def line_12() -> None:
    """Pictures of any model."""
    model = fit()
    given = model, FRESH[FEATURES][:2000], FRESH["sex"][:2000]
    for display in (eh.plots.DistributionDisplay, eh.plots.MovementDisplay):
        drawn = display.from_model(*given).plot()
        words = {text.get_text() for text in drawn.figure_.findobj(mpl.text.Text)}
        check(f"{display.__name__}: {len(words)} pieces of text", len(words) > 3)
    tilt = eh.plots.TiltDisplay.from_model(model).plot()
    check("favoured predictions in words", "tilt" not in tilt.figure_.axes[0].get_ylabel().lower())


def line_13() -> None:
    """Tables for notebooks, in words of a user."""
    model = fit()
    held_out = eh.certificates.certify_held_out(model.predict(FRESH[FEATURES]), FRESH["sex"])
    for name, each in {"certificate": model.certificate_, "held-out bounds": held_out}.items():
        table = each._repr_html_()
        check(
            f"{name}: a table of {len(table)} characters",
            "<table" in table and "tilt" not in table and "woman" in table,
        )


def line_14() -> None:
    """A search over epsilon that does not end at the largest."""
    sex = PEOPLE["sex"]
    search = GridSearchCV(
        eh.ParityRegressor(confidence=None, random_state=0),
        {"epsilon": [0.02, 0.05, 0.5]},
        scoring={
            "score": eh.scoring.model_scorer(),
            "parity": eh.scoring.parity_scorer(sensitive_features=sex),
        },
        refit=eh.scoring.best_within(0.12),
        cv=3,
    )
    learn(search, PEOPLE[FEATURES], PEOPLE["wage"], sensitive_features=sex)
    chosen = search.best_params_["epsilon"]
    check(f"best_within(0.12) takes epsilon={chosen}", chosen < 0.5)
    check("no nan", bool(np.isfinite(search.cv_results_["mean_test_parity"]).all()))


COLD = """
import time; start = time.perf_counter()
import numpy as np, evenhand as eh; loaded = time.perf_counter()
data = eh.datasets.make_population(1000, n_groups=2, random_state=0)
eh.ParityRegressor(epsilon=0.1).fit(data.data, data.target, sensitive_features=data.sensitive_features)
print(loaded - start, time.perf_counter() - loaded)
"""


def line_15() -> None:
    """The first fit of a fresh environment: seconds are measured here, and judged by benchmarks/."""
    with tempfile.TemporaryDirectory() as cache:
        seconds = [_cold({**os.environ, "NUMBA_CACHE_DIR": cache}) for _ in range(2)]
    for name, (loading, fitting) in zip(("first process", "second process"), seconds, strict=True):
        check(f"{name}: import {loading:.1f} s, first fit {fitting:.1f} s", fitting > 0.0)


def _cold(environment: dict[str, str]) -> list[float]:
    asked = [sys.executable, "-W", "ignore", "-c", COLD]
    done = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True)
    return [float(each) for each in done.stdout.split()]


def line_16() -> None:
    """People with the same features, and their luck."""
    coarse = PEOPLE.assign(years=PEOPLE["years"].round(-1), test=PEOPLE["test"].round(-1))
    model = eh.ParityRegressor(epsilon=0.1, random_state=0)
    told = learn(model, coarse[FEATURES], coarse["wage"], sensitive_features=coarse["sex"])
    check("fit recommends ids=", "ids=" in told.get("SharedDrawsWarning", ""))
    shared, own = model.predict(coarse[FEATURES]), model.predict(coarse[FEATURES], ids=coarse["id"])
    same = coarse.groupby(FEATURES).ngroup()
    luck = [pd.Series(drawn).groupby(same.to_numpy()).nunique().max() for drawn in (shared, own)]
    check(f"at most {luck[0]} answer for one set of features, {luck[1]} with ids", luck[0] == 1 < luck[1])
    with tempfile.TemporaryDirectory() as folder:
        table, file, scored = (str(Path(folder, name)) for name in ("people.csv", "m.evenhand", "scored.csv"))
        coarse.drop(columns=["origin", "hired"]).to_csv(table, index=False)
        asked = ["--target", "wage", "--sensitive", "sex", "--id", "id"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", exceptions.EvenhandWarning)
            codes = [command_line(["fit", table, *asked, "-o", file, "-q"])]
            codes.append(command_line(["predict", file, table, "-o", scored, "-q"]))
        drawn = pd.read_csv(scored)["prediction"].groupby(same.to_numpy()).nunique().max()
    check(f"the command line draws by --id: {drawn} answers", codes == [0, 0] and drawn > 1)


LINES = {number: globals()[f"line_{number}"] for number in range(1, 17)}


def main(numbers: list[int]) -> int:
    """Go through the lines; 0 where all hold."""
    FAILED.clear()
    for number in numbers or LINES:
        started = time.perf_counter()
        print(f"{number:2d}. {LINES[number].__doc__}")
        try:
            LINES[number]()
        except Exception as error:  # one line must not hide the others
            check(f"{type(error).__name__}: {error}", holds=False)
        print(f"         ({time.perf_counter() - started:.1f} s)")
    print(f"{len(FAILED)} of the checks do not hold." if FAILED else "All of it holds.")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main(list(map(int, sys.argv[1:]))))
