#include "experiments/evidence/cell_view.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "core/ledger/stored_config.h"
#include "core/ledger/untraced.h"

namespace assay {

namespace {

CellView empty_view(const LedgerData& data, const CellRow& cell) {
  CellView view;
  view.spec = &data.spec;
  view.cell = &cell;
  view.config = std::make_shared<const nlohmann::json>(stored_config(cell.config_json));
  view.planned_launches = data.planned_launches(cell);
  if (!cell.looks.empty()) view.look = current_look(data, cell);
  view.looks = look_state(data, cell);
  view.optimization = optimization_of(data, cell);
  return view;
}

void add_variant(CellView& view, const VariantRow& variant) {
  view.variants.push_back(&variant);
  if (variant.role == Role::Reference && view.baseline == nullptr) view.baseline = &variant;
  if (variant.role == Role::Control && view.control == nullptr) view.control = &variant;
  if (variant.role == Role::Level) view.levels.push_back(&variant);
}

void add_launch(CellView& view, const LedgerData& data, const LaunchRow& launch) {
  view.launches.push_back(&launch);
  if (is_counted(launch)) {
    if (data.superseded(launch.id)) {
      view.superseded.insert(launch.index);
      ++view.replaced;
      view.redone_by_name |= std::ranges::any_of(data.events, [&](const EventRow& event) {
        return event.launch == launch.id && event.kind == "redo" && event.cause == kCauseAsked;
      });
    } else {
      view.counted.push_back(&launch);
    }
  } else if (launch.kind == LaunchKind::Timed && launch.repeats != 0 &&
             launch.state != LaunchState::Running)
    ++view.replaced; // a repetition that gave nothing
  if (data.set_aside(launch.id)) ++view.set_aside;
  if (view.gpu.empty()) view.gpu = launch.identity.gpu;
}

} // namespace

bool is_counted(const LaunchRow& launch) {
  return launch.kind == LaunchKind::Timed && has_results(launch.state);
}

bool by_token(const CellRow& cell) {
  return cell.unit == "token";
}

const OptimizationRow* optimization_of(const LedgerData& data, const CellRow& cell) {
  const auto found =
      std::ranges::find(data.optimizations, cell.optimization, &OptimizationRow::name);
  return found == data.optimizations.end() ? nullptr : &*found;
}

bool compares_keys(const OptimizationRow* row) {
  return row != nullptr && row->scope == kScopeOfKeys;
}

double units_of(const CellRow& cell, const VisitRow& visit) {
  return by_token(cell) ? static_cast<double>(visit.tokens) : visit.steps;
}

std::vector<const LaunchRow*> CellView::of_kind(LaunchKind kind) const {
  std::vector<const LaunchRow*> result;
  for (const LaunchRow* launch : launches)
    if (launch->kind == kind) result.push_back(launch);
  return result;
}

std::vector<const LaunchRow*> CellView::complete(LaunchKind kind) const {
  std::vector<const LaunchRow*> result = of_kind(kind);
  std::erase_if(result, [](const LaunchRow* l) { return l->state != LaunchState::Complete; });
  return result;
}

const LaunchRow* CellView::latest(LaunchKind kind, LaunchState state) const {
  const LaunchRow* newest = nullptr;
  for (const LaunchRow* launch : of_kind(kind))
    if (launch->state == state && (newest == nullptr || launch->id > newest->id)) newest = launch;
  return newest;
}

int CellView::complete_indices(LaunchKind kind) const {
  std::set<int> indices;
  for (const LaunchRow* launch : complete(kind)) indices.insert(launch->index);
  return static_cast<int>(indices.size());
}

const std::vector<const VisitRow*>& CellView::visits(std::int64_t launch,
                                                     std::int64_t variant) const {
  static const std::vector<const VisitRow*> none;
  const auto found = visits_.find({launch, variant});
  return found == visits_.end() ? none : found->second;
}

const std::vector<const MetricRow*>& CellView::metrics(std::int64_t launch) const {
  static const std::vector<const MetricRow*> none;
  const auto found = metrics_.find(launch);
  return found == metrics_.end() ? none : found->second;
}

int CellView::first_counted_round(std::int64_t launch) const {
  std::optional<int> first;
  for (const VariantRow* variant : variants) {
    const auto& own = visits(launch, variant->id);
    const auto timed =
        std::find_if(own.begin(), own.end(), [](const VisitRow* visit) { return !visit->warmup; });
    if (timed != own.end()) first = std::min(first.value_or((*timed)->round), (*timed)->round);
  }
  return first.value_or(0);
}

const StepCostRow* CellView::cost(std::int64_t variant) const {
  const auto found = costs_.find(variant);
  return found == costs_.end() ? nullptr : found->second;
}

std::string CellView::equivalence() const {
  return optimization ? optimization->equivalence : "";
}

const LevelRow* CellView::level(const std::string& name) const {
  if (!optimization) return nullptr;
  for (const LevelRow& row : optimization->levels)
    if (row.name == name) return &row;
  return nullptr;
}

const RetiredVariant* CellView::retired(const VariantRow& variant) const {
  for (const RetiredVariant& retirement : retirements)
    if (retirement.variant == variant.id) return &retirement;
  return nullptr;
}

const LaunchRow* traced_launch(const LedgerData& data, std::int64_t cell) {
  for (const LaunchState state :
       {LaunchState::Complete, LaunchState::Partial, LaunchState::Running, LaunchState::Failed})
    if (const LaunchRow* launch = data.latest_launch(cell, LaunchKind::Traced, state))
      return launch;
  return nullptr;
}

std::vector<CellView> cell_views(const LedgerData& data) {
  std::vector<CellView> views;
  std::unordered_map<std::int64_t, std::size_t> by_cell, by_launch, by_variant;
  for (const CellRow& cell : data.cells) {
    by_cell[cell.id] = views.size();
    views.push_back(empty_view(data, cell));
    views.back().untraced = left_untraced(data, cell.id);
  }
  // The view that a row belongs to, or nullptr.
  const auto at = [&](const auto& index, std::int64_t id) {
    const auto found = index.find(id);
    return found == index.end() ? nullptr : &views[found->second];
  };
  for (const VariantRow& variant : data.variants)
    if (CellView* view = at(by_cell, variant.cell)) {
      add_variant(*view, variant);
      by_variant[variant.id] = by_cell[variant.cell];
    }
  for (const StepCostRow& cost : data.costs)
    if (CellView* view = at(by_variant, cost.variant)) view->costs_[cost.variant] = &cost;
  std::set<std::int64_t> parity;
  for (const LaunchRow& launch : data.launches)
    if (CellView* view = at(by_cell, launch.cell)) {
      by_launch[launch.id] = by_cell[launch.cell];
      if (launch.kind == LaunchKind::Parity) parity.insert(launch.id);
      add_launch(*view, data, launch);
    }
  for (const VisitRow& visit : data.visits)
    if (CellView* view = at(by_launch, visit.launch))
      view->visits_[{visit.launch, visit.variant}].push_back(&visit);
  for (const MetricRow& metric : data.metrics)
    if (CellView* view = at(by_launch, metric.launch))
      view->metrics_[metric.launch].push_back(&metric);
  for (const GateRow& gate : data.gates)
    if (CellView* view = at(by_launch, gate.launch); view && parity.contains(gate.launch))
      view->gates.push_back(&gate);
  for (const EventRow& event : data.events)
    if (CellView* view = at(by_launch, event.launch))
      if (auto retirement = retirement_of(event, view->variants))
        view->retirements.push_back(std::move(*retirement));
  for (CellView& view : views)
    for (auto& [key, visits] : view.visits_)
      std::stable_sort(visits.begin(), visits.end(), [](const VisitRow* x, const VisitRow* y) {
        return x->round < y->round;
      });
  return views;
}

} // namespace assay
