// CellView: the ledger's rows of one cell, sorted once: variants by role, launches by kind,
// visits by launch and variant, gates, metrics and retirements. Everything that judges a cell reads
// this and never the whole ledger. It points into the ledger, which must outlive it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/ledger/ledger.h"
#include "core/ledger/looks.h"
#include "experiments/evidence/retirement.h"

namespace assay {

// A launch whose rounds enter verdicts, if it has visits of both variants in half of them.
bool is_counted(const LaunchRow& launch);

// Whether a verdict is about the time of a token: visits may then take other steps and tokens.
bool by_token(const CellRow& cell);
// The optimization that a cell compares; nullptr: the ledger lacks it.
const OptimizationRow* optimization_of(const LedgerData& data, const CellRow& cell);
// Whether it is values of a matrix's keys; else a row of the registry, or nullptr.
bool compares_keys(const OptimizationRow* row);
// What a visit's time is divided by: its counted steps or evaluations, or their tokens.
double units_of(const CellRow& cell, const VisitRow& visit);

class CellView {
public:
  const SpecRow* spec = nullptr;
  const CellRow* cell = nullptr;
  const OptimizationRow* optimization = nullptr; // nullptr: the ledger lacks it
  std::shared_ptr<const nlohmann::json> config;  // the baseline's; an object, empty if unreadable

  const VariantRow* baseline = nullptr;
  const VariantRow* control = nullptr;
  std::vector<const VariantRow*> levels;   // in the plan's order, without the baseline
  std::vector<const VariantRow*> variants; // all

  int planned_launches = 0;               // timed ones
  std::size_t look = 0;                   // of cell->looks: the one whose level verdicts have
  LookState looks;                        // that the engine took
  std::vector<const LaunchRow*> launches; // all, in ledger order
  // Timed ones that are complete, or partial with half, and that no later attempt replaced.
  std::vector<const LaunchRow*> counted;
  int set_aside = 0;                 // repetitions that were more disturbed; they count nowhere
  std::set<int> superseded;          // indices of timed ones that a later attempt replaced
  int replaced = 0;                  // these attempts; an index may have several
  bool redone_by_name = false;       // of them one because `--redo` named the cell
  std::vector<const GateRow*> gates; // of parity launches
  std::vector<RetiredVariant> retirements; // in the order in which they happened
  std::string untraced;                    // why its traced launch was left out, or ""
  std::string gpu;                         // board's name, "" on the CPU or before any launch

  std::vector<const LaunchRow*> of_kind(LaunchKind kind) const;
  std::vector<const LaunchRow*> complete(LaunchKind kind) const;
  // nullptr if there is none.
  const LaunchRow* latest(LaunchKind kind, LaunchState state) const;
  int complete_indices(LaunchKind kind) const; // repeated ones once

  // By round.
  const std::vector<const VisitRow*>& visits(std::int64_t launch, std::int64_t variant) const;
  const std::vector<const MetricRow*>& metrics(std::int64_t launch) const;
  // The ledger's number of a launch's first round after the warm-up. The ledger counts rounds from
  // 0, warm-up included; people see them from 1, after the warm-up: round - first + 1.
  int first_counted_round(std::int64_t launch) const;

  // The cost of a variant's step, as it was stored with the plan; nullptr: not stored.
  const StepCostRow* cost(std::int64_t variant) const;

  std::string equivalence() const; // of the optimization, or ""
  const LevelRow* level(const std::string& name) const;
  // The first retirement of a variant, or nullptr.
  const RetiredVariant* retired(const VariantRow& variant) const;

private:
  friend std::vector<CellView> cell_views(const LedgerData& data);
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<const VisitRow*>> visits_;
  std::map<std::int64_t, std::vector<const MetricRow*>> metrics_;
  std::map<std::int64_t, const StepCostRow*> costs_; // by variant
};

// The cell's newest complete traced launch, else the one that came furthest; nullptr if there is
// none.
const LaunchRow* traced_launch(const LedgerData& data, std::int64_t cell);

// Of every cell, in the plan's order.
std::vector<CellView> cell_views(const LedgerData& data);

} // namespace assay
