#include "app/worker/launch/launch.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <random>

#include "app/worker/launch/guard_memory.h"
#include "app/worker/launch/step_data.h"
#include "core/fallback.h"
#include "core/ledger/launch_rules.h"
#include "core/protocol/visit_json.h"
#include "core/statistics/statistics.h"
#include "core/stopwatch.h"
#include "model/config/key_variants.h"
#include "model/layout/segments.h"
#include "model/memory/peak_memory.h"
#include "model/training/global_state.h"
#include "model/training/planted.h"

namespace assay::worker {

namespace {

using nlohmann::json;

// Visits of a probe. The first warm up; as many after them show how pairs scatter, and are waited
// for longer than others.
constexpr std::size_t kFewestProbes = 4, kProbesOfScatter = 2 * kFewestProbes, kMostProbes = 40;
constexpr std::chrono::seconds kProbeTime{3}, kScatterTime{15};
constexpr int kBatchesAhead = 64; // a launch of 4 rounds of 4 steps and its warm-up draw about 40
constexpr int kEvaluationWarmSteps =
    8; // train steps before evaluations are timed: the EMA leaves the weights

std::vector<std::size_t> in_order(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

std::vector<std::size_t> permutation(std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> order = in_order(count);
  std::mt19937_64 generator(seed);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[generator() % i]);
  return order;
}

std::vector<std::size_t> asked_order(const json& message, std::size_t count) {
  const auto order = message.get<std::vector<std::size_t>>();
  std::vector<std::size_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != in_order(count))
    bad_input("build_order has to name each of {} variants once", count);
  return order;
}

// Of the first training batches, in the fullest.
std::int64_t most_documents(const DataSource& source, const TrainConfig& config) {
  DataStream data(source, config, Split::Train);
  std::int64_t most = 0;
  for (int i = 0; i < kBatchesAhead; ++i) most = std::max(most, data.next().documents.count());
  return most;
}

VisitRow visit_row(std::size_t position, const VisitResult& visit, const Covariates& covariates) {
  VisitRow row;
  row.position = static_cast<int>(position);
  row.steps = visit.steps;
  row.wall_ns = visit.wall_ns;
  row.device_ns = visit.device_ns;
  row.tokens = visit.tokens;
  row.loss = visit.loss;
  row.skipped_steps = visit.skipped_steps;
  row.sample_ns = visit.sample_ns;
  row.covariates = covariates;
  return row;
}

} // namespace

namespace {

// A row of the table, or what a matrix's variants are expected to have in common.
Optimization row_of(const json& message) {
  const std::string name = message.at("optimization");
  if (!message.contains("expect")) return *value_or_throw(optimizations().lookup(name));
  return key_row(name,
                 value_or_throw(equivalence_named(message.at("expect"))),
                 value_or_throw(unit_named(message.at("unit"))));
}

} // namespace

Launch::Launch(const json& message,
               CovariateSampler sampler,
               std::string gpu_uuid,
               RankChannel* ranks)
    : kind_(message.at("kind")), unit_(message.at("unit")), optimization_(row_of(message)),
      visit_steps_(message.value("visit_steps", 1)),
      discard_steps_(message.value("discard_steps", 0)), seed_(message.at("seed")),
      gpu_uuid_(std::move(gpu_uuid)), sampler_(std::move(sampler)), ranks_(ranks) {
  for (const json& item : message.at("variants")) {
    VariantSpec spec{item.at("name"),
                     item.at("level"),
                     item.at("role"),
                     value_or_throw(config_from_json(item.at("config")))};
    spec.config = value_or_throw(resolve(spec.config));
    spec.own_layouts =
        !variants_.empty() && !model_keys(differing_keys(reference(), spec.config)).empty();
    variants_.push_back(std::move(spec));
  }
  if (variants_.empty()) bad_input("a launch needs at least one variant");
  build_order_ = message.contains("build_order")
                     ? asked_order(message.at("build_order"), variants_.size())
                     : permutation(variants_.size(), seed_);
  source_ = open_data(reference());
  const bool own_streams =
      unit_ == "token" || times_loader() ||
      std::any_of(variants_.begin(), variants_.end(), [&](const VariantSpec& spec) {
        return !loader_keys(differing_keys(reference(), spec.config)).empty();
      });
  for (std::size_t i = 0; i < (own_streams ? variants_.size() : 1); ++i)
    train_data_.push_back(std::make_unique<DataStream>(source_, variants_[i].config, Split::Train));
  held_out_data_ = std::make_unique<DataStream>(source_, reference(), Split::HeldOut);
  if (kind_ == "traced") start_tracer(message.at("trace")); // before the first CUDA context
  build_replicas();
}

// A graph of the step gets room for all batches of the launch, because one that needs another graph
// runs steps without any.
std::unique_ptr<Trainer> Launch::make_trainer(std::size_t variant) {
  const TrainConfig& config = variants_[variant].config;
  auto trainer = std::make_unique<Trainer>(config, group());
  if (config.step_graph == StepGraph::On && config.attention == Attention::Varlen) {
    const auto [known, first] =
        documents_ahead_.try_emplace(train_data_.size() == 1 ? 0 : variant, std::int64_t{0});
    if (first) known->second = most_documents(source_, config);
    trainer->expect_documents(known->second);
  }
  return trainer;
}

void Launch::build_replicas() {
  const auto start = std::chrono::steady_clock::now();
  replicas_.resize(variants_.size());
  own_step_ns_.resize(variants_.size());
  planted_.resize(variants_.size());
  steps_.resize(variants_.size());
  data_wait_ns_.resize(variants_.size());
  tokens_twice_.resize(variants_.size());
  if (kind_ == "timed" || kind_ == "traced" || kind_ == "loss" || kind_ == "probe") {
    for (const std::size_t i : build_order_) {
      guard_memory(i, variants_[i].name, [&] {
        const std::int64_t before = current_bytes(variants_[i].config.device);
        replicas_[i].trainer = make_trainer(i);
        replicas_[i].bytes = current_bytes(variants_[i].config.device) - before;
      });
    }
    if (unit_ == "evaluation") warm_evaluation_replicas();
  }
  state_hash_ = global_state_hash();
  build_seconds_ = seconds_since(start);
}

// Evaluation is timed between train steps in real use: a few steps make the EMA differ from the
// weights, and report what a step costs, so that the effect can be stated per step as well.
void Launch::warm_evaluation_replicas() {
  std::vector<double> step_ns;
  for (int step = 0; step < kEvaluationWarmSteps; ++step) {
    const auto data = for_every_variant([&](std::size_t i) { return next_train_data(i); });
    pause_data();
    for (const std::size_t i : build_order_) {
      guard_memory(i, variants_[i].name, [&] {
        const VisitResult visit = run_visit(*replicas_[i].trainer, false, prepared({data[i]}), 0);
        if (step >= kEvaluationWarmSteps / 2) step_ns.push_back(static_cast<double>(visit.wall_ns));
      });
    }
    resume_data();
  }
  step_ns_ = median(step_ns);
}

DataStream& Launch::train_data(std::size_t variant) const {
  return *train_data_[train_data_.size() == 1 ? 0 : variant];
}

void Launch::pause_data() {
  for (const auto& stream : train_data_) stream->pause();
  held_out_data_->pause();
}

void Launch::resume_data() {
  for (const auto& stream : train_data_) stream->resume();
  held_out_data_->resume();
}

// The micro-batches of a step. Of N ranks, rank r takes batches r, N + r, 2N + r … of the stream.
UnitData Launch::next_train_data(std::size_t variant) {
  const TrainConfig& config = variants_[variant].config;
  const RankShare share =
      ranks_ == nullptr ? RankShare{} : RankShare{ranks_->place().rank, ranks_->place().size};
  return next_batches(train_data(variant), config, config.accumulate, share);
}

UnitData Launch::next_unit_data(std::size_t variant) {
  if (unit_ != "evaluation") return next_train_data(variant);
  UnitData data;
  for (std::int64_t i = 0; i < reference().eval_batches; ++i) {
    data.push_back(held_out_data_->next());
    prepare(data.back(), reference());
  }
  return data;
}

int Launch::visit_steps(std::size_t variant) const {
  if (unit_ != "token") return visit_steps_;
  return discard_steps_ + steps_of_equal_tokens(step_tokens(reference()),
                                                step_tokens(variants_[variant].config),
                                                visit_steps_ - discard_steps_);
}

std::vector<UnitData> Launch::next_units(std::size_t variant) {
  std::vector<UnitData> units;
  for (int i = 0; i < visit_steps(variant); ++i) units.push_back(next_unit_data(variant));
  return units;
}

// By variant; nothing where a visit draws them itself.
std::vector<std::vector<UnitData>> Launch::units_of_round() {
  if (times_loader()) return std::vector<std::vector<UnitData>>(variants_.size());
  return for_every_variant([&](std::size_t i) { return next_units(i); });
}

UnitSource Launch::unit_source(std::size_t variant, const std::vector<UnitData>& units) {
  if (!times_loader()) return prepared(units);
  const auto draw = [this, variant](std::size_t i) -> const UnitData& {
    if (i == 0) train_data(variant).resume();
    drawn_ = next_train_data(variant);
    return drawn_;
  };
  return {static_cast<std::size_t>(visit_steps_), draw};
}

// The same tokens as the variant's model needs them: other layers want other layouts.
void Launch::lay_out(std::size_t variant, std::vector<Batch>& batches) const {
  if (!variants_[variant].own_layouts) return;
  guard_memory(variant, variants_[variant].name, [&] {
    for (Batch& batch : batches) prepare(batch, variants_[variant].config);
  });
}

void Launch::lay_out(std::size_t variant, std::vector<UnitData>& units) const {
  for (UnitData& data : units) lay_out(variant, data);
}

// A text that cannot be read gets no warning here: it ends the launch that reads it, by its name.
std::string Launch::data_warning() const {
  try {
    return little_data(source_, reference());
  } catch (const Failure&) {
    return "";
  }
}

json Launch::built() const {
  json names = json::array(), bytes = json::array();
  for (const std::size_t i : build_order_) names.push_back(variants_[i].name);
  for (const Replica& replica : replicas_) bytes.push_back(replica.bytes);
  return {{"event", "built"},
          {"build_order", names},
          {"seconds", build_seconds_},
          {"threads", at::get_num_threads()},
          {"parameters", model_size(reference()).parameters},
          {"data", source_.fingerprint()},
          {"warning", data_warning()},
          {"bytes", bytes}};
}

// Ranks begin together: each has drained its device before it comes to the barrier. They end an
// evaluation together, after the clock: what a rank does next (its data threads, the next visit)
// would run beside an evaluation that it does not wait for (validation_ranks = none).
VisitResult Launch::timed_visit(std::size_t variant, const UnitSource& units, Tracer* tracer) {
  std::optional<RankWatchdog::Phase> phase;
  std::function<void()> barrier;
  if (ranks_ != nullptr) {
    phase.emplace(ranks_->watch(), "visit of " + variants_[variant].name, true);
    barrier = [this] { ranks_->group()->barrier("visit"); };
  }
  const bool evaluation = unit_ == "evaluation";
  const std::map<std::string, std::int64_t> before = fallbacks();
  const std::int64_t waited = train_data(variant).wait_ns(), twice = train_data(variant).repeated();
  sampler_.begin();
  VisitResult visit =
      run_visit(*replicas_[variant].trainer, evaluation, units, discard_steps_, tracer, barrier);
  if (times_loader()) {
    train_data(variant).pause();
    steps_[variant] += std::ssize(visit.sample_ns);
    data_wait_ns_[variant] += train_data(variant).wait_ns() - waited;
    tokens_twice_[variant] += train_data(variant).repeated() - twice;
  }
  if (evaluation && barrier) barrier();
  for (const auto& [name, times] : fallbacks()) {
    const auto known = before.find(name);
    const std::int64_t own = times - (known == before.end() ? 0 : known->second);
    if (own > 0) fallbacks_[variant][name] += own;
  }
  // Every rank has the whole list of an evaluation; its tokens are to be counted once.
  if (evaluation && ranks_ != nullptr && ranks_->place().rank > 0) visit.tokens = 0;
  return visit;
}

// "" for a finite loss and for one that another rank knows, else the words of its retirement; in a
// loss launch with the step that was reached, from 1.
std::string Launch::why_not_finite(std::size_t variant, const VisitResult& visit, int round) const {
  if (!visit.loss || std::isfinite(*visit.loss)) return "";
  std::string why = fmt::format("loss of variant '{}' is {}", variants_[variant].name, *visit.loss);
  if (kind_ != "loss") return why;
  const auto first = std::find_if(visit.step_losses.begin(),
                                  visit.step_losses.end(),
                                  [](double loss) { return !std::isfinite(loss); });
  return why + fmt::format(" at step {} of training with seed {}",
                           std::int64_t{round} * visit_steps(variant) +
                               (first - visit.step_losses.begin()) + 1,
                           reference().seed);
}

// One variant's visit of a round, with what the machine did meanwhile.
std::pair<VisitResult, Covariates> Launch::observed_visit(std::size_t variant,
                                                          const UnitSource& units,
                                                          int round,
                                                          const std::string& tracing) {
  const std::string& name = variants_[variant].name;
  Tracer* tracer = tracing.empty() ? nullptr : tracer_.get();
  if (tracer != nullptr) tracer->begin_visit(variant, round, tracing == "warm-up");
  Replica& replica = replicas_[variant];
  const auto eager_steps = [&] {
    const GraphCounts* counts = replica.trainer->graph_counts();
    return counts == nullptr ? 0 : counts->steps_without_graph();
  };
  const std::int64_t before = eager_steps();
  VisitResult visit =
      guard_memory(variant, name, [&] { return timed_visit(variant, units, tracer); });
  if (eager_steps() > before) replica.last_eager_round = round;
  const Covariates covariates = sampler_.end();
  if (tracer != nullptr) tracer->end_visit();
  if (kind_ == "loss") visit.loss = mean(visit.step_losses);
  if (const std::uint64_t now = global_state_hash(); now != state_hash_)
    internal_error("variant '{}' changed LibTorch's global state (hash {:x}, was {:x})",
                   name,
                   now,
                   state_hash_);
  return {std::move(visit), covariates};
}

// Every variant of the round is visited before one is retired: when several lose their loss, the
// first of them is, the reference before the levels, which are then not to blame.
json Launch::round(const json& message) {
  if (!times_loader()) resume_data(); // the round before may have held them
  const auto units = units_of_round();
  pause_data();
  json visits = json::array();
  std::map<std::size_t, std::string> not_finite; // by variant
  const int number = message.at("round");
  const std::string tracing = message.value("trace", "");
  if (!tracing.empty() && !tracer_) bad_input("a {} launch records no trace", kind_);
  const json& order = message.at("order");
  for (std::size_t position = 0; position < order.size(); ++position) {
    const auto variant = order[position].get<std::size_t>();
    if (variant >= replicas_.size())
      bad_input("round names variant {}, the launch has {}", variant, replicas_.size());
    const auto [visit, covariates] =
        observed_visit(variant, unit_source(variant, units[variant]), number, tracing);
    if (std::string why = why_not_finite(variant, visit, number); !why.empty())
      not_finite.emplace(variant, std::move(why));
    if (ranks_ != nullptr)
      own_step_ns_[variant].push_back(static_cast<double>(visit.wall_ns) / visit.steps);
    if (visit.planted_ns > 0 && replicas_[variant].trainer->step_index() > kSettledSteps)
      planted_[variant].push_back(
          -std::log1p(-static_cast<double>(visit.planted_ns) / static_cast<double>(visit.wall_ns)));
    visits.push_back(visit_to_json(variant, visit_row(position, visit, covariates)));
  }
  if (!not_finite.empty())
    throw Retired{not_finite.begin()->first, kCauseLoss, not_finite.begin()->second};
  if (!message.value("hold", false) && !times_loader())
    resume_data(); // else another process is timed
  return {{"event", "round"}, {"round", number}, {"visits", visits}};
}

json Launch::probe() {
  const auto start = std::chrono::steady_clock::now();
  const auto goes_on = [&](std::size_t visits) {
    const auto elapsed = std::chrono::steady_clock::now() - start;
    return visits < kFewestProbes || (visits < kProbesOfScatter && elapsed < kScatterTime) ||
           (visits < kMostProbes && elapsed < kProbeTime);
  };
  const Device device = reference().device;
  const PeakMemory memory(device);
  const std::int64_t built = current_bytes(device);
  std::vector<double> unit_ns;
  while (goes_on(unit_ns.size())) {
    std::vector<UnitData> units;
    if (!times_loader()) units.assign(static_cast<std::size_t>(visit_steps_), next_unit_data(0));
    const VisitResult visit = run_visit(
        *replicas_.front().trainer, unit_ == "evaluation", unit_source(0, units), discard_steps_);
    unit_ns.push_back(static_cast<double>(visit.wall_ns) / visit.steps);
  }
  std::vector<double> steps; // the first visits warm up
  for (std::size_t i = kFewestProbes; i < unit_ns.size(); ++i)
    steps.push_back(std::log(unit_ns[i] / unit_ns[i - 1]));
  const std::int64_t kept = current_bytes(device) - built; // what the first step makes and keeps
  json sd = steps.size() < kFewestProbes ? json() : json(1.4826 * mad(steps));
  return {{"event", "probe"},
          {"pair_sd", std::move(sd)},
          {"unit_ns", median(unit_ns)},
          {"replica_bytes", replicas_.front().bytes + kept},
          {"step_bytes", memory.peak_bytes() - memory.start_bytes() - kept},
          {"build_seconds", build_seconds_}};
}

json Launch::bye() {
  if (tracer_) describe_graphs();
  json metrics = tracer_ ? tracer_->finish() : json::array();
  tracer_.reset();
  if (step_ns_ > 0)
    metrics.push_back(metric_json(
        nullptr, "time/step_ns", "ns", step_ns_, "median train step beside the timed evaluations"));
  if (kind_ == "loss")
    metrics.push_back(metric_json(nullptr,
                                  kDataEpochMetric,
                                  "epochs",
                                  static_cast<double>(train_data(0).position().epoch),
                                  "of the training data, finished"));
  for (std::size_t i = 0; i < replicas_.size(); ++i)
    if (replicas_[i].trainer != nullptr && replicas_[i].trainer->graph_counts() != nullptr)
      metrics.push_back(metric_json(i,
                                    kLastEagerRoundMetric,
                                    "round",
                                    static_cast<double>(replicas_[i].last_eager_round),
                                    "the last with a step that no graph replayed; -1: none"));
  for (std::size_t i = 0; i < own_step_ns_.size(); ++i)
    if (!own_step_ns_[i].empty())
      metrics.push_back(metric_json(i,
                                    fmt::format("rank/{}/step_ns", ranks_->place().rank),
                                    "ns",
                                    median(own_step_ns_[i]),
                                    "median over this rank's visits, warm-up included"));
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i] == 0) continue;
    const auto a_step = [&](std::int64_t sum) {
      return static_cast<double>(sum) / static_cast<double>(steps_[i]);
    };
    metrics.push_back(
        metric_json(i,
                    kDataWaitMetric,
                    "ns",
                    a_step(data_wait_ns_[i]),
                    "mean per step that the loop waited for the loader, warm-up included"));
    metrics.push_back(
        metric_json(i,
                    kTokensTwiceMetric,
                    "tokens",
                    a_step(tokens_twice_[i]),
                    "mean per step that the loader handed out a second time, warm-up included"));
  }
  for (std::size_t i = 0; i < planted_.size(); ++i)
    if (!planted_[i].empty())
      metrics.push_back(metric_json(i,
                                    kPlantedMetric,
                                    "log ratio",
                                    mean(planted_[i]),
                                    "what the planted wait did to a visit, mean over visits"));
  for (const auto& [variant, names] : fallbacks_)
    for (const auto& [name, times] : names)
      metrics.push_back(metric_json(
          variant, name, "calls", static_cast<double>(times), "of all visits, warm-up included"));
  return {{"event", "bye"}, {"metrics", metrics}};
}

} // namespace assay::worker
