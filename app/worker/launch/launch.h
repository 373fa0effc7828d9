// One launch: the replicas of a group of variants in this process, and the rounds, gates and
// measurements that the engine asks for. docs/protocol.md gives the messages; all times are
// nanoseconds.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "app/worker/launch/tracer.h"
#include "app/worker/launch/visit.h"
#include "app/worker/ranks/rank_channel.h"
#include "core/ledger/ledger.h"
#include "model/config/optimization.h"
#include "model/data/loader.h"
#include "model/training/trainer.h"
#include "profilers/machine/covariate_sampler.h"

namespace assay::worker {

struct VariantSpec {
  std::string name, level, role;
  TrainConfig config;
  bool own_layouts = false; // its model needs other layouts of a batch than the reference's
};

// Variants that must leave the launch: the round that showed it is not answered.
struct Retired {
  std::size_t variant;
  const char* cause; // kCauseLoss, kCauseMemory
  std::string reason;
};

class Launch {
public:
  // Parses a "launch" message; builds replicas for launches with rounds in an order permuted by
  // its seed. `ranks` null: this process is alone; otherwise every rank builds the same launch.
  Launch(const nlohmann::json& message,
         CovariateSampler sampler,
         std::string gpu_uuid,
         RankChannel* ranks = nullptr);

  nlohmann::json built() const; // answer to "launch"
  nlohmann::json round(const nlohmann::json& message);
  nlohmann::json parity();
  nlohmann::json memory();
  nlohmann::json probe();
  nlohmann::json stop_trace(); // the launch continues without its tracer
  nlohmann::json bye();

private:
  std::string data_warning() const;
  nlohmann::json
  measure_memory(std::size_t variant, const UnitData& first, const std::vector<UnitData>& units);
  struct Replica {
    std::unique_ptr<Trainer> trainer;
    std::int64_t bytes = 0;
    std::int64_t last_eager_round = -1; // step_graph = on: with a step that no graph replayed
  };
  void start_tracer(const nlohmann::json& trace);
  void describe_graphs();
  void build_replicas();
  std::unique_ptr<Trainer> make_trainer(std::size_t variant);
  void warm_evaluation_replicas();
  // With unit "pipeline_step" the loader works while the clock runs, and only then: each variant's
  // from where its last visit left it.
  bool times_loader() const { return unit_ == "pipeline_step"; }
  // The streams that a variant's steps draw from: with unit "token" or "pipeline_step" its own, for
  // a step takes other batches, or the loader differs; else that of all.
  DataStream& train_data(std::size_t variant) const;
  void pause_data();
  void resume_data();
  std::vector<Batch> parity_batches(std::size_t variant);
  UnitData next_train_data(std::size_t variant);
  UnitData next_unit_data(std::size_t variant);
  int visit_steps(std::size_t variant) const;
  std::vector<UnitData> next_units(std::size_t variant);
  std::vector<std::vector<UnitData>> units_of_round();
  UnitSource unit_source(std::size_t variant, const std::vector<UnitData>& units);
  // By variant: what `draw` gives for it, in the layouts that its model needs. Variants that share
  // a stream take the same tokens, drawn once.
  template <class Draw> auto for_every_variant(Draw draw) {
    std::vector<decltype(draw(std::size_t{0}))> all{draw(0)};
    for (std::size_t i = 1; i < variants_.size(); ++i) {
      all.push_back(train_data_.size() > 1 ? draw(i) : all.front());
      if (train_data_.size() == 1) lay_out(i, all.back());
    }
    return all;
  }
  void lay_out(std::size_t variant, std::vector<Batch>& batches) const;
  void lay_out(std::size_t variant, std::vector<UnitData>& units) const;
  VisitResult timed_visit(std::size_t variant, const UnitSource& units, Tracer* tracer);
  std::pair<VisitResult, Covariates> observed_visit(std::size_t variant,
                                                    const UnitSource& units,
                                                    int round,
                                                    const std::string& tracing);
  std::string why_not_finite(std::size_t variant, const VisitResult& visit, int round) const;
  const TrainConfig& reference() const { return variants_.front().config; }
  std::shared_ptr<ProcessGroup> group() const {
    return ranks_ == nullptr ? nullptr : ranks_->group();
  }

  std::string kind_, unit_;
  Optimization optimization_;
  std::vector<VariantSpec> variants_;
  int visit_steps_ = 1, discard_steps_ = 0;
  std::uint64_t seed_ = 0;
  std::unique_ptr<DataStream> held_out_data_;
  std::vector<std::unique_ptr<DataStream>> train_data_; // one, or one a variant
  std::map<std::size_t, std::int64_t> documents_ahead_; // by stream, of its fullest batch
  std::vector<Replica> replicas_;
  std::vector<std::size_t> build_order_;
  double build_seconds_ = 0;
  double step_ns_ = 0; // median train step of the reference, for evaluation units
  std::string gpu_uuid_;
  std::uint64_t state_hash_ = 0; // of LibTorch's global state after building
  CovariateSampler sampler_;
  DataSource source_;
  std::unique_ptr<Tracer> tracer_; // of a traced launch
  RankChannel* ranks_;
  std::vector<std::vector<double>> own_step_ns_; // of several ranks: by variant, one a visit
  UnitData drawn_;                               // by the visit that times the loader
  std::vector<std::int64_t> steps_, data_wait_ns_, tokens_twice_; // the same, by variant
  std::vector<std::vector<double>> planted_; // by variant: ln(visit / visit without its wait)
  // Of visits, by variant and name (core/fallback.h).
  std::map<std::size_t, std::map<std::string, std::int64_t>> fallbacks_;
};

} // namespace assay::worker
