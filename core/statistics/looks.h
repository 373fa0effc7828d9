// A group-sequential test: the same hypothesis is tested at several looks while launches come in,
// and its two-sided error over all looks stays alpha. Reference values: tests/core/looks_test.cpp.
#pragma once

#include <vector>

namespace assay {

// Two-sided levels of each look, so that P(any look rejects) = alpha for t intervals of launches.
// `looks`: launches at each, rising, at least 5. Up to the share t of the launches a share t^2 of
// alpha is spent (Kim and DeMets 1987, Biometrika 74, 149; docs/decisions.md says why not O'Brien
// and Fleming's shape). The probabilities are integrated over the scores of normal values that went
// on (Armitage, McPherson and Rowe 1969, J. R. Stat. Soc. A 132, 235), with 0.92 alpha where there
// are several looks, which makes up for the estimated scatter. 0 < alpha < 1.
std::vector<double> look_levels(double alpha, const std::vector<int>& looks);

} // namespace assay
