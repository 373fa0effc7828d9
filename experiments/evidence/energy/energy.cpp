#include "experiments/evidence/energy/energy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "core/ledger/covariates.h"

namespace assay {

namespace {

// By round, of the visits that nothing disturbed.
std::map<int, const VisitRow*>
visits_by_round(const CellView& cell, std::int64_t launch, const VariantRow& variant) {
  std::map<int, const VisitRow*> by_round;
  for (const VisitRow* visit : cell.visits(launch, variant.id))
    if (!visit->warmup && visit->covariates.energy_j.value_or(0) > 0 &&
        disturbance(visit->covariates, cell.spec->limits).empty())
      by_round[visit->round] = visit;
  return by_round;
}

// Of the units that count: the counter also saw those that the clock discards.
double joules(const VisitRow& visit) {
  const double all = std::max<double>(static_cast<double>(visit.sample_ns.size()), visit.steps);
  return *visit.covariates.energy_j * visit.steps / all;
}

// Medians over the visits of one side.
struct Drawn {
  std::vector<double> unit, token;

  void add(const CellRow& cell, const VisitRow& visit) {
    unit.push_back(joules(visit) / units_of(cell, visit));
    if (visit.tokens > 0) token.push_back(joules(visit) / static_cast<double>(visit.tokens));
  }
  double per_token() { return token.empty() ? 0 : median(std::move(token)); }
};

} // namespace

std::optional<EnergyEffect>
energy_effect(const CellView& cell, const VariantRow& a, const VariantRow& b, double judged_alpha) {
  const LaunchRow* launch = cell.latest(LaunchKind::Energy, LaunchState::Complete);
  if (launch == nullptr) return std::nullopt;
  const auto of_a = visits_by_round(cell, launch->id, a),
             of_b = visits_by_round(cell, launch->id, b);
  Drawn in_a, in_b;
  std::vector<double> ratios;
  double shortest_ns = std::numeric_limits<double>::infinity();
  for (const auto& [round, visit] : of_a) {
    const auto other = of_b.find(round);
    if (other == of_b.end()) continue;
    in_a.add(*cell.cell, *visit);
    in_b.add(*cell.cell, *other->second);
    ratios.push_back(std::log(in_b.unit.back() / in_a.unit.back()));
    for (const VisitRow* one : {visit, other->second})
      shortest_ns = std::min(shortest_ns, static_cast<double>(one->wall_ns));
  }
  if (ratios.empty()) return std::nullopt;
  return EnergyEffect{median(std::move(in_a.unit)),
                      median(std::move(in_b.unit)),
                      in_a.per_token(),
                      in_b.per_token(),
                      shortest_ns * 1e-9,
                      estimate(std::move(ratios), judged_alpha)};
}

std::string why_no_energy(const CellView& cell) {
  const LaunchRow* launch = cell.latest(LaunchKind::Energy, LaunchState::Complete);
  if (launch == nullptr) return "";
  for (const VariantRow* variant : cell.variants)
    if (!visits_by_round(cell, launch->id, *variant).empty()) return "";
  return "not known: neither the driver nor the kernel gives what the device drew, or other work "
         "disturbed every round";
}

} // namespace assay
