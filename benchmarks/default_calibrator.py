"""The calibrator that comes with the package (`confidence: default`): made from the runs that `trust.py` recorded.

    python benchmarks/trust.py simulate --out simulated.jsonl
    python benchmarks/trust.py ask --logs FOLDER --model MODEL.gguf --out answers.jsonl
    python benchmarks/default_calibrator.py answers.jsonl simulated.jsonl [--out rlm/calibration/default.json]

It is fitted on single runs and on what 2, 3 and 5 of them agree on. Answers to one question are never on both sides of
a split. Nothing is written if it is not better than the formula on the half that was held back. It is used on other
models and tasks than these: features whose weight says the opposite of what they mean are left out, one after another.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from trust_answers import Asked, Record, asked, masked, read, single

from rlm import __version__
from rlm.calibration import FEATURES, Answer, calibrate, save
from rlm.calibration.calibrator import Logistic
from rlm.calibration.fit import fit
from rlm.calibration.io import default_path

FOR = {"named", "alike", "labelled", "held", "printed", "both", "late", "computed", "quoted", "checked", "confirmed"}
FOR |= {"cited", "backers", "submitted", "budget_left"}
AGAINST = {"null", "empty", "against", "mislabelled", "hedged", "incomplete", "excerpt", "leftover", "nothing"}
AGAINST |= {"guessed", "literal", "rivals", "errors", "last_failed", "attempts", "out_of_errors", "out_of_time"}
AGAINST |= {"typed", "unknown", "defaulted", "chosen", "retyped", "unread", "unsure", "cut", "contradicted"}
AGAINST |= {"dissent", "silent"}


def consistent(answers: list[Answer]) -> list[Answer]:
    """Return the answers without features that a fit to them would weigh the wrong way."""
    names = set(FEATURES)
    while True:
        kept = [masked(answer, names) for answer in answers]
        curve = fit(kept, "logistic", "product").curve
        assert isinstance(curve, Logistic)
        wrong = {name: weight for name, weight in curve.weights.items() if weight > 0 and name in AGAINST}
        wrong |= {name: -weight for name, weight in curve.weights.items() if weight < 0 and name in FOR}
        if not wrong:
            return kept
        names.discard(max(wrong, key=lambda name: wrong[name]))


def answers_of(records: Sequence[Record]) -> list[Answer]:
    """Return the answers of single runs and of several."""
    made: list[Asked] = [*single(records), *(one for runs in (2, 3, 5) for one in asked(records, runs))]
    return [one.answer for one in made if one.has_answer and one.answer.fields]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=default_path())
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    records = [record for path in given.files for record in read(path)]
    about = {
        "rlm": __version__,
        "suites": sorted({record["suite"] for record in records}),
        "models": sorted({record["model"] for record in records}),
        "questions": len({record["sample"] for record in records}),
        "runs": len(records),
        "right": 1.0,
    }
    # Isotonic regression on the formula sees no agreement.
    report = calibrate(consistent(answers_of(records)), method="logistic", seed=given.seed, fitted_on=about)
    for level in ("fields", "answers"):
        before, after = getattr(report.before, level).measures(), getattr(report.after, level).measures()
        print(f"{level} held back ({before.n}): {before}\n  calibrated: {after}")
    if report.calibrator is None:
        sys.exit("not better than the formula on what was held back: nothing is written")
    save(report.calibrator, given.out)
    print(f"{given.out}: {report.method}, {report.way}; {report.calibrator.fitted_on}")


if __name__ == "__main__":
    main()
