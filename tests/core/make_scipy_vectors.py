"""Writes scipy_vectors.json beside this file: reference values for core/statistics.

Run by hand when a function is added:  python -m venv v && v/bin/pip install scipy &&
v/bin/python tests/core/make_scipy_vectors.py
"""

import json
import math
import pathlib

import numpy
import scipy
from scipy import stats


def sample_cases(rng):
    samples = [
        rng.normal(0.01, 0.1, 5),
        rng.normal(-0.05, 0.02, 6),
        rng.standard_t(2, 40) * 0.1,
        rng.standard_t(3, 101) * 0.05 - 0.02,
        rng.exponential(1.0, 64),
        numpy.array([0.25, 0.25, 0.5, 0.5, 0.75, 1.0, 1.0, 1.0]),
    ]
    for x in samples:
        n = len(x)
        walsh = [(x[i] + x[j]) / 2 for i in range(n) for j in range(i, n)]
        intervals = []
        for alpha in (0.05, 0.01, 0.05 / 6):
            # SciPy's order-statistic interval of the median (exact, binomial).
            low, high = stats.quantile_test(x, p=0.5).confidence_interval(1 - alpha)
            t_low, t_high = stats.ttest_1samp(x, 0).confidence_interval(1 - alpha)
            intervals.append({
                "alpha": alpha,
                "median": None if math.isnan(low) or math.isnan(high) else [low, high],
                "t": [t_low, t_high],
            })
        yield {
            "values": list(x),
            "mean": numpy.mean(x),
            "sd": numpy.std(x, ddof=1),
            "median": numpy.median(x),
            "mad": stats.median_abs_deviation(x),
            "hodges_lehmann": numpy.median(walsh),
            "quantiles": [[p, numpy.quantile(x, p)] for p in (0, 0.05, 0.25, 0.5, 0.95, 0.99, 1)],
            "t_test_p": stats.ttest_1samp(x, 0).pvalue,
            "intervals": intervals,
        }


def power(effect, sd, launches, alpha):
    df = launches - 1
    critical = stats.t.ppf(1 - alpha / 2, df)
    shift = effect / (sd / math.sqrt(launches))
    return stats.nct.sf(critical, df, shift) + stats.nct.cdf(-critical, df, shift)


def launches_needed(effect, sd, alpha, target):
    launches = 2
    while power(effect, sd, launches, alpha) < target:
        launches += 1
    return launches


def tost_cases(rng):
    for x in (rng.normal(0.0, 0.002, 5), rng.normal(0.001, 0.002, 8), rng.normal(-0.004, 0.001, 4),
              rng.normal(0.006, 0.002, 12), numpy.array([0.001, 0.002])):
        for margin in (0.002, 0.004):
            low, high = stats.ttest_1samp(x, 0).confidence_interval(0.90)
            yield {
                "differences": list(x),
                "margin": margin,
                "interval_90": [low, high],
                "p_low": stats.ttest_1samp(x, -margin, alternative="greater").pvalue,
                "p_high": stats.ttest_1samp(x, margin, alternative="less").pvalue,
            }


def tost_pairs_needed(sd, margin, power):
    n = 2
    while (stats.t.ppf(0.95, n - 1) + stats.t.ppf((1 + power) / 2, n - 1)) * sd / math.sqrt(n) > margin:
        n += 1
    return n


def welch_cases(rng):
    for first, second in ((rng.normal(2.7, 0.010, 5), rng.normal(2.72, 0.010, 5)),
                          (rng.normal(2.7, 0.002, 5), rng.normal(2.71, 0.020, 8)),
                          (rng.normal(-0.13, 0.004, 8), rng.normal(-0.12, 0.001, 3)),
                          (rng.normal(0.0, 1.0, 2), rng.normal(0.5, 3.0, 2)),
                          (rng.normal(0.0, 1.0, 12), numpy.array([1.0, 1.0, 1.0]))):
        test = stats.ttest_ind(second, first, equal_var=False)
        yield {
            "first": list(first),
            "second": list(second),
            "difference": numpy.mean(second) - numpy.mean(first),
            "df": test.df,
            "intervals": [[alpha, *test.confidence_interval(1 - alpha)] for alpha in (0.05, 0.01, 0.05 / 18)],
        }


def main():
    rng = numpy.random.default_rng(20261121)
    vectors = {
        "scipy": scipy.__version__,
        "samples": list(sample_cases(rng)),
        "fisher": [
            [*table, stats.fisher_exact([table[:2], table[2:]]).pvalue]
            for table in ([3, 97, 14, 86], [0, 40, 0, 40], [5, 35, 5, 35], [1, 9, 11, 3],
                          [2, 498, 19, 481], [12, 0, 0, 9])
        ],
        "student_quantile": [
            [p, df, stats.t.ppf(p, df)] for p in (0.8, 0.975, 0.995, 1 - 0.05 / 12)
            for df in (1, 2, 4, 7, 11)
        ],
        "power": [
            [effect, sd, launches, alpha, power(effect, sd, launches, alpha)]
            for effect, sd in ((0.01, 0.005), (0.01, 0.01), (0.002, 0.01), (0.05, 0.02))
            for launches in (2, 3, 5, 8) for alpha in (0.05, 0.05 / 6)
        ],
        "launches_needed": [
            [effect, sd, alpha, 0.8, launches_needed(effect, sd, alpha, 0.8)]
            for effect, sd in ((0.01, 0.005), (0.01, 0.01), (0.01, 0.04), (0.05, 0.02))
            for alpha in (0.05, 0.05 / 6)
        ],
        "tost": list(tost_cases(rng)),
        "tost_pairs_needed": [
            [sd, margin, target, tost_pairs_needed(sd, margin, target)]
            for sd, margin in ((0.0013, 0.002), (0.0019, 0.002), (0.0019, 0.004), (0.0005, 0.002))
            for target in (0.8, 0.9)
        ],
        # Draws of its own: what is above stays as it is.
        "welch": list(welch_cases(numpy.random.default_rng(20261125))),
    }
    target = pathlib.Path(__file__).with_name("scipy_vectors.json")
    target.write_text(json.dumps(vectors, indent=1, default=float) + "\n")


if __name__ == "__main__":
    main()
