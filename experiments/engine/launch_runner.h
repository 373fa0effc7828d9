// One launch: its worker processes from hello to bye, its rows written as they come.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/protocol/protocol.h"
#include "experiments/engine/runner.h"
#include "experiments/engine/schedule.h"
#include "experiments/engine/warmup.h"
#include "experiments/engine/worker_process.h"
#include "experiments/evidence/owed/plan_state.h"

namespace assay {

struct LaunchContext {
  const LedgerData& data; // plan, launches, gates, events so far
  Ledger& ledger;
  const RunOptions& options;
  Schedule schedule;
  std::string log_directory, results_directory;
  std::string build;                    // of earlier launches, or ""
  std::function<std::string()> stopped; // why to stop after this round, or ""
  struct Round {
    int counted = 0; // so far
    bool warmup = false;
    int all = 0;       // warm-up included
    int disturbed = 0; // of the counted ones
  };
  std::function<void(const Round&)> on_round;
  std::string waited; // for a quiet machine: the event's detail, or ""
  std::function<void(const std::string&)> on_warning; // of the worker, about the data
};

// What a launch left behind besides visits.
struct LaunchOutcome {
  LaunchRow row; // as it ended
  std::vector<GateRow> gates;
  std::vector<EventRow> events;
  int counted_rounds = 0, disturbed_rounds = 0;
  std::vector<MetricRow> data; // once known: fingerprint of what it read, builds of own workers
};

class LaunchRunner {
public:
  LaunchRunner(LaunchContext& context, const LaunchTask& task);

  // Throws Failure when the whole run has to end: bad input before anything was built, another
  // build, a full disk. The launch's row is closed first where that is possible.
  LaunchOutcome run();

private:
  struct End; // why a launch ended before its time
  enum class RoundKind {
    WarmUp,       // until steps are steady
    TracerWarmUp, // traced and not counted
    Counted,
  };

  // One for all variants, or one a variant.
  struct Process {
    LaunchRequest request;
    std::vector<std::size_t> variants = {}; // indices in request_.variants
    std::unique_ptr<WorkerProcess> worker = nullptr;
  };

  void lengthen_visits();
  void split();
  Process& process_of(std::size_t variant);
  const Process& named_process();
  // "variant 'x' (builds/1f3c/assay-worker): " where a process is a variant's own.
  std::string owner_text(const Process& process) const;
  void start(Process& process);
  void converse();
  bool has_rounds() const;
  void check(Process& process); // its gates, or its memory
  void one_after_the_other();
  void all_rounds_of(Process& process,
                     std::vector<RoundKind>& kinds,
                     std::vector<std::vector<VisitRow>>& rounds);
  std::vector<EventRow>
  warm_up(WarmUp& warmup, RoundKind kind, const std::vector<VisitRow>& visits, int round);
  nlohmann::json
  ask(Process& process, const nlohmann::json& request, const char* event, double timeout);
  void greet(Process& process);
  void check_own_build(const LaunchVariant& variant, const std::string& build);
  void build(Process& process);
  void add_data(MetricRow row);
  void rounds();
  void one_round(int round, WarmUp& warmup);
  RoundKind next_round(const WarmUp& warmup) const;
  Tracing tracing(RoundKind kind) const;
  std::vector<VisitRow> visits_of_round(int round, RoundKind kind);
  std::vector<VisitRow>
  visits_in(Process& process, int round, const std::vector<std::size_t>& order, RoundKind kind);
  void count_round(RoundKind kind, const std::vector<VisitRow>& visits);
  std::string place_text(int round) const;
  std::string round_text() const;
  void store_gates_and_metrics(const Process& process, const nlohmann::json& event, bool gates);
  void finish(Process& process);
  bool is_more_disturbed() const;
  void set_aside();
  void close(End end);
  void store_readings();
  void add_event(const EventRow& event);
  double round_timeout() const;
  int rounds_wanted() const;

  LaunchContext& context_;
  const CellRow& cell_;
  LaunchTask task_;
  LaunchRequest request_; // of all variants
  std::vector<Process> processes_;
  LaunchOutcome outcome_;
  bool built_ = false;   // data and device are open: bad input from here on is this cell's alone
  int timed_rounds_ = 0; // counted ones, of any kind of launch that has them
  int warm_rounds_ = 0, traced_warm_rounds_ = 0;
  bool energy_unread_ = false; // no visit of a round has its energy
  int warmup_round_ = 0;       // the one that the worker runs, from 1; 0: none
  std::vector<double> round_seconds_;
};

} // namespace assay
