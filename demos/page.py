"""Write a report and a model card with nothing installed but `evenhand[report]`; CI runs it so."""

import evenhand as eh


def main() -> None:
    fit, new = (eh.datasets.make_population(600, n_groups=2, random_state=seed) for seed in (0, 1))
    model = eh.ParityRegressor().fit(fit.data, fit.target, sensitive_features=fit.sensitive_features)
    rows = {"X": new.data, "y": new.target, "sensitive_features": new.sensitive_features}
    page = eh.report(model, **rows, path="report.html")
    card = eh.model_card(model, **rows, path="card.md")
    print(f"evenhand {eh.__version__} wrote {page} ({page.stat().st_size:,} bytes) and {card}.")


if __name__ == "__main__":
    main()
