// Ledger: the one SQLite file of a results directory (`ledger.sqlite`): what was planned, every
// launch, visit and sample, every gate and decision. One writer (the engine); raw rows are
// append-only; analysis reads LedgerData only. Schema rules: docs/ledger.md. Times are nanoseconds,
// sizes bytes, clocks MHz, power watts, temperature degrees C.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/result.h"
#include "core/statistics/roofline.h"

namespace assay {

inline constexpr int kLedgerSchema = 12;

// Beyond these a visit counts as disturbed, and its pair is left out (docs/statistics.md). Shares.
struct DisturbanceLimits {
  double steal = 0.05;     // of all cores' time, taken by other virtual machines
  double run_delay = 0.20; // of the visit's time that its threads waited for a core
  double pairs = 0.20;     // of a comparison's pairs; more, and it gets no verdict
};

struct SpecRow {
  std::string hash; // content hash of everything that determines the plan (matrix resolved,
                    // overrides, seed)
  std::string name;
  std::uint64_t seed = 0;
  std::string matrix_toml; // the file as it was read
  std::string plan_json;   // the resolved plan, for people
  std::string command;     // the command line that made the plan
  std::string created_utc;
  int launches = 0; // timed launches per cell
  double alpha = 0.05;
  double sesoi = 0.01; // smallest effect size of interest, as a share of the unit's time
  double power = 0.8;
  DisturbanceLimits limits = {};
  std::string directory =
      {}; // where the command was given; "" in older ledgers, merged from several
  int schema = kLedgerSchema; // of the file that it was read from
};

struct LevelRow {
  std::string name, summary, span;
};

// OptimizationRow::scope.
inline constexpr const char* kScopeOfTable = "visit"; // a row of the registry, copied at plan time
inline constexpr const char* kScopeOfKeys = "keys";   // variants of a matrix

// A weighted sum of effects, judged as one figure (core/statistics/design.h).
struct ContrastTerm {
  std::string from, to; // level names
  double weight = 0;

  bool operator==(const ContrastTerm&) const = default;
};
struct ContrastRow {
  std::string name, kind; // kind: to_string(ContrastKind)
  std::vector<ContrastTerm> terms;
};

struct OptimizationRow {
  std::string name, summary, equivalence, unit, scope, equality;
  std::vector<LevelRow> levels; // levels[0] is the reference
  // Beyond "each level against the reference"; with a design, all pairs that are compared.
  std::vector<std::pair<std::string, std::string>> also_compare;
  std::string design = {}; // to_string(Design), or "": each level against the reference
  std::vector<ContrastRow> contrasts = {};
};

struct ClaimRow { // copied from experiments/claims at plan time
  std::string id, optimization;
  std::string from, to;     // level names
  std::string text, source; // quotation and its place
  std::string metric;       // step_time | throughput | peak_memory | unit_time
  double lo = 0, hi = 0;    // claimed gain in the claim's metric: 0.10 = +10 % throughput, or 10 %
                            // less time/bytes; hi infinite: no upper end, and lo 0: no figure
  std::string conditions;   // in words
  std::string
      unmet; // why the claim is not tested by any run of this build; "" when a run may test it
  std::string requires_json; // {"device":"cuda","precision":["bf16"]}: what a cell's config must be
                             // to meet it
  std::string stages;        // stages that the document names, "forward,backward"; "": none
  std::vector<std::string> source_errors = {}; // arithmetic faults of its document, a sentence each
  std::string of = {}; // phases of memory that peak_memory is about, "weights,ema"; "": all bytes
};

struct CellRow {
  std::int64_t id = 0;
  std::string name; // "varlen", "bf16_guard/fp32"
  std::string optimization;
  std::string unit;        // train_step | evaluation | token
  std::string config_json; // the resolved TrainConfig of the reference
  int rounds = 0;          // timed rounds per launch
  int visit_steps = 1;     // K: units per visit
  int discard_steps = 0;   // w: of these, the first w are stored and not counted
  int launches = 0;        // timed launches; 0: the spec's
  int traced_rounds = 0;   // counted rounds of the traced launch; 0: the cell is not traced
  int loss_seeds = 0;      // loss launches, one a seed; 0: the cell is not trained for its loss
  int loss_rounds = 0;     // visits of each variant in one of them
  int loss_steps = 0;      // optimizer steps per visit of them
  double loss_margin = 0;  // nats per token, declared before any data
  double loss_target = 0;  // nats per token whose reaching is timed, likewise; 0: none
  int energy_rounds = 0;   // counted rounds of the energy launch; 0: there is none
  bool turns = false;      // every variant runs in a process of its own; else all in one
  bool apart = false;      // of turns: each process ends before the next one starts
  // Launches after which the results decide whether more are run, rising, the last of them
  // `launches`; empty: `launches` are run.
  std::vector<int> looks = {};
};

// A decision of the plan that a person should see: a cell that is split, a default that fell back.
struct NoteRow {
  std::string cell, text; // cell: its name as the matrix has it, or "": the whole plan
};

// What one of a calibration's two comparisons showed: ln(time ratio) with its 95 % interval, and
// the constants of its verdict.
struct CalibrationReading {
  double effect = 0, low = 0, high = 0;
  std::string validity, speed;
};

// `assay calibrate` on one machine and device: does it see what is there and nothing else?
struct CalibrationRow {
  std::string utc; // when its last launch ended
  std::string build, host, cpu;
  int cores = 0;                       // usable ones
  std::string gpu, device;             // gpu: the board, "": none
  std::string cell, preset, precision; // what was measured: the reference of this cell
  double unit_ns = 0;                  // a train step of it
  int launches = 0;                    // that count, of the comparison that has fewer
  CalibrationReading aa;               // nothing was planted
  double planted_share = 0;            // of the step, that was asked for
  double planted_truth = 0;            // ln(time ratio) of what the wait really did
  CalibrationReading planted;
};

enum class Role { Reference, Level, Control }; // Control: the reference again (A/A)

struct VariantRow {
  std::int64_t id = 0, cell = 0;
  std::string name; // level name; "control" for the control
  std::string level;
  Role role = Role::Level;
  std::string config_json;
  // Of its own process, over the engine's: variables as "K=V\n"; the worker's program.
  std::string environment = {}, worker = {};
};

// What one optimizer step of a variant costs by arithmetic on its shape, as the plan was made.
struct StepCostRow {
  std::int64_t variant = 0;
  std::int64_t tokens = 0;          // of a step, all ranks together
  bool all_kernel_launches = false; // the operations' kernel launches are all of the step's
  std::vector<OpCost> operations;
};

// Loss: trains from one seed; its index is the seed's number. Energy: visits of kEnergySeconds, in
// which counters of energy mean something.
enum class LaunchKind { Parity, Timed, Memory, Traced, Loss, Energy };
inline constexpr double kEnergySeconds = 5;
enum class LaunchState {
  Running,
  Complete,
  Partial,
  Failed
}; // Partial: closed with >= half of its rounds
// Complete or partial: what it measured can be read.
bool has_results(LaunchState state);

struct Identity { // where and with what a launch ran; launches with another build are never mixed
  std::string build, libtorch, cuda, driver, gpu, gpu_uuid, host, boot, cpu, kernel;
  int cores = 0;
  int threads = 0;
  std::string environment; // NCCL_*, OMP_*, MKL_* … as "K=V\n"
};

struct LaunchRow {
  std::int64_t id = 0, cell = 0;
  LaunchKind kind = LaunchKind::Timed;
  int index = 0, attempt = 0;
  LaunchState state = LaunchState::Running;
  std::string reason;       // why it failed or is partial
  std::int64_t repeats = 0; // the launch that this one measures again on request; 0: none
  std::string started_utc, ended_utc;
  std::string build_order; // variant names in the order in which replicas were built
  int rounds_planned = 0;
  bool steady = true; // warm-up ended by its rule; false: the cap ended it
  Identity identity;
};

// What the machine did while a visit ran. A value that could not be read is absent, never 0.
struct Covariates {
  std::optional<double> steal_share; // of all cores' time, 0..1
  std::optional<double>
      run_delay_share;         // of the visit's wall time, summed over the worker's compute threads
  std::optional<double> load1; // load average, 1 minute
  std::optional<std::int64_t> voluntary_switches, involuntary_switches;
  std::optional<double> sm_clock_mhz, memory_clock_mhz, power_w, temperature_c;
  std::optional<std::int64_t> throttle_reasons;  // NVML bits
  std::optional<std::int64_t> foreign_processes; // other processes on the GPU
  // What the visit's device drew, discarded units included: the GPU's board, or all CPU packages.
  // Counters move about every 100 ms, so it means little for a short visit.
  std::optional<double> energy_j;
};

struct VisitRow {
  std::int64_t id = 0, launch = 0, variant = 0;
  int round = 0, position = 0;
  bool warmup = false;
  int steps = 0;                         // counted units (discarded ones not included)
  std::int64_t wall_ns = 0;              // of the counted units, together
  std::optional<std::int64_t> device_ns; // by CUDA events, of the counted units
  std::int64_t tokens = 0;               // of the counted units
  std::optional<double> loss;            // last counted unit; in a loss launch the mean over them
  std::int64_t skipped_steps = 0;        // optimizer steps the loss scaler skipped
  Covariates covariates;
  std::vector<std::int64_t> sample_ns; // every unit's own time, discarded ones included, in order
};

// Metric of a loss launch: how many times its training data had been through at its end.
inline constexpr const char* kDataEpochMetric = "data/epochs";
// Metric of a variant whose step is a CUDA graph: the last round in which a step ran without one.
inline constexpr const char* kLastEagerRoundMetric = "graph/last_eager_round";
// Metric of a variant that times its loader: what the loop waited for it, ns a step.
inline constexpr const char* kDataWaitMetric = "data/wait_ns";
// The same of tokens that its loader handed out a second time, a step.
inline constexpr const char* kTokensTwiceMetric = "data/tokens_twice";
// Metric of a variant with a planted wait: ln(time ratio) of what the wait did to a visit.
inline constexpr const char* kPlantedMetric = "planted/log_ratio";
inline constexpr const char* kWorkerBuildMetric = "worker/build"; // its detail: the value

struct MetricRow { // one tagged value: "memory/peak_bytes", "engaged/attention/varlen",
                   // "time/step_ns" …
  std::int64_t launch = 0;
  std::int64_t variant = 0; // 0: the launch as a whole
  std::string path, unit;
  double value = 0;
  std::string detail;
};

struct GateRow { // one parity check of a variant against the reference
  std::int64_t launch = 0, variant = 0;
  std::string name; // "bitwise/weights", "isolation/documents", "engaged", "global_state"
  bool passed = false;
  double value = 0, bound = 0; // measured difference, allowed difference
  std::string detail;
};

// A meter of the machine that a run reads beside its launches.
struct MeterRow {
  std::string board;  // UUID of the GPU, "" of the host
  std::string name;   // with its unit: "Power [W]"
  std::string source; // "NVML", "HOST"
  std::string status; // "ok", or why it cannot be read
};

struct MeterReading {
  std::int64_t time_ns = 0; // CLOCK_REALTIME
  std::size_t meter = 0;    // index into the run's meters
  double value = 0;
};

struct Meters {
  std::vector<MeterRow> meters;
  std::map<std::int64_t, std::vector<MeterReading>> readings; // of each launch, by time
};

struct EventRow { // a data-dependent decision or a mishap
  std::int64_t launch = 0;
  int round = -1;
  std::string utc, kind, detail; // kind: warmup_end | retired | restarted | stopped | redo |
                                 // waited | untraced | bad_input | look | no_energy
  std::int64_t variant = 0;      // retired: which one; 0: none
  // retired: kCauseLoss, kCauseMemory; redo: kCauseDisturbed, kCauseAsked; look: kCauseDecided,
  // kCauseOpen
  std::string cause = {};
};

// EventRow::cause.
inline constexpr const char* kCauseLoss = "loss";           // it became NaN or infinite
inline constexpr const char* kCauseMemory = "memory";       // it ran out
inline constexpr const char* kCauseDisturbed = "disturbed"; // measured again: by its covariates
inline constexpr const char* kCauseAsked = "asked";     // measured again: a person named its cell
inline constexpr const char* kCauseDecided = "decided"; // a look: no further launch is run
inline constexpr const char* kCauseOpen = "open";       // a look: launches follow, if any are left

struct LedgerData {
  SpecRow spec;
  std::vector<OptimizationRow> optimizations;
  std::vector<ClaimRow> claims;
  std::vector<CellRow> cells;
  std::vector<VariantRow> variants;
  std::vector<StepCostRow> costs;           // one a variant; none in ledgers before schema 5
  std::vector<NoteRow> notes;               // none in ledgers before schema 10
  std::vector<CalibrationRow> calibrations; // oldest first; none in ledgers before schema 10
  std::vector<LaunchRow> launches;
  std::vector<VisitRow> visits;
  std::vector<MetricRow> metrics;
  std::vector<GateRow> gates;
  std::vector<EventRow> events;

  const CellRow& cell(std::int64_t id) const;
  const VariantRow& variant(std::int64_t id) const;
  const StepCostRow* cost(std::int64_t variant) const; // nullptr: not known
  // Whether a launch that was measured again has given its place to the later one: that one is
  // complete, or partial. What was measured first stays in the ledger and enters no verdict.
  bool superseded(std::int64_t launch) const;
  // Whether a launch measured another again and was more disturbed: the earlier one keeps its
  // place.
  bool set_aside(std::int64_t launch) const;
  // Timed ones; of a cell with looks, up to where it stopped or to its next look.
  int planned_launches(const CellRow& cell) const;
  // The newest launch of this kind and state in the cell; nullptr if there is none.
  const LaunchRow* latest_launch(std::int64_t cell, LaunchKind kind, LaunchState state) const;
};

// Everything in the ledger of a results directory, opened read-only; works beside a running engine,
// after kill -9, and on a read-only file system. Errors: no such ledger, not a ledger, a newer
// schema (names it), damaged.
Result<LedgerData> read_ledger(const std::string& directory);
// What the machine's meters read; nothing in ledgers before schema 12.
Result<Meters> read_meters(const std::string& directory);

class Database;

// The engine's handle. Holds the directory's lock for its whole life; throws Failure with the
// holder's name otherwise.
class Ledger {
public:
  // Opens or creates. A new directory gets `plan` (spec, optimizations, claims, cells, variants,
  // notes);
  // an existing one must have the same spec hash.
  static std::unique_ptr<Ledger> open(const std::string& directory, const LedgerData& plan);
  ~Ledger();

  std::int64_t start_launch(const LaunchRow& launch); // returns its id; state running
  void set_identity(std::int64_t launch, const Identity& identity, const std::string& build_order);
  // One transaction: a round is in the ledger whole, or not at all.
  void commit_round(const std::vector<VisitRow>& visits, const std::vector<EventRow>& events);
  void add(const std::vector<MetricRow>& metrics,
           const std::vector<GateRow>& gates,
           const std::vector<EventRow>& events);
  // Those that it does not have yet.
  void add(const std::vector<CalibrationRow>& calibrations);
  // Of the launch that runs. `meters`: the run's, which the readings count.
  void add(std::int64_t launch,
           const std::vector<MeterRow>& meters,
           const std::vector<MeterReading>& readings);
  // Ends the launch, checkpoints and syncs to disk.
  void end_launch(std::int64_t launch, LaunchState state, const std::string& reason, bool steady);
  // Launches left running by a killed engine become partial (>= half the rounds) or failed, with
  // the reason.
  void close_abandoned_launches();
  // Leaves WAL mode so that the directory can be copied and opened read-only. Called once, at the
  // end of a run.
  void finish();
  // What the engine does between launches, for whoever asks the directory's lock; "": nothing.
  void tell_activity(const std::string& activity);

  LedgerData read() const;

private:
  Ledger() = default;
  std::unique_ptr<Database> database_;
  int lock_fd_ = -1;
};

// "varlen/group1": a cell of the matrix that is split has groups as cells. `group` counts from 1.
std::string group_name(std::string_view cell, std::size_t group);
// Whether `name` is the matrix's cell, or one of its groups.
bool is_of_cell(std::string_view name, std::string_view cell);

std::string_view to_string(Role role);
std::string_view to_string(LaunchKind kind);
std::string_view to_string(LaunchState state);

} // namespace assay
