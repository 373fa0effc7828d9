// Report: everything that is known about a results directory, as plain data. Terminal table,
// Markdown, JSON, HTML and the viewer all render this and compute nothing of their own. A pure
// function of the ledger: no clock, no machine, the same bytes every time.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/ledger/ledger.h"
#include "experiments/analysis/claims.h"
#include "experiments/analysis/rank_times.h"
#include "experiments/analysis/speed.h"
#include "experiments/attribution/attribution.h"
#include "experiments/evidence/data_wait.h"
#include "experiments/evidence/effect.h"
#include "experiments/evidence/end_to_end.h"
#include "experiments/evidence/energy/energy.h"
#include "experiments/evidence/evidence.h"
#include "experiments/evidence/first_step.h"
#include "experiments/evidence/loss/loss.h"
#include "experiments/evidence/loss/time_to_loss.h"
#include "experiments/evidence/memory/memory_effect.h"
#include "experiments/evidence/pairs.h"
#include "experiments/evidence/verdict.h"

namespace assay {

inline constexpr int kReportSchema = 5;
// A/A: the control's effect makes a cell INVALID when p is below this and the effect is of
// interest.
inline constexpr double kControlAlarmP = 0.005;

// Candidate against baseline in one cell.
struct Comparison {
  std::string a, b; // variant names
  std::int64_t a_id = 0, b_id = 0;
  std::string a_config_json;     // stored configuration of a
  bool against_reference = true; // false: a pair of the row's without the baseline
  PairSet pairs;
  std::optional<Effect> effect;     // pairs that were not disturbed
  std::optional<Effect> effect_all; // every pair
  std::optional<Estimate> device;   // by CUDA events, a second column
  std::optional<Estimate> position; // second visit against first, a health figure
  std::optional<EndToEnd> end_to_end;
  double times_ranks = 0; // b's ranks over a's where tokens are timed and these differ; else 0
  std::optional<DataWait> data_wait; // of cells that time their loader
  std::optional<FirstStep> a_first, b_first;
  std::optional<MemoryEffect> memory;
  std::optional<EnergyEffect> energy; // nothing where the plan has no energy launch, or no counter
  std::optional<LossTest> loss;       // nothing where the plan has no loss launches
  std::optional<TimeToLoss> time_to_loss; // nothing where it declares no target
  Evidence evidence;
  Verdict verdict;
  std::optional<Explanation> explanation; // where the difference is, from traces
  std::string no_explanation;             // why there is none, or ""
  RankTimes a_ranks, b_ranks;             // of cells with several ranks
};

enum class ContrastState {
  Undecided,
  AddUp,    // an interaction inside +-sesoi: the steps' effects multiply
  Interact, // one whose whole interval is on one side of 0
  NoEffect, // the same two of a main effect
  Faster,
  Slower,
};
// The constants of docs/report-schema.md: "undecided", "add_up" …
std::string_view to_string(ContrastState state);

// A main effect or an interaction of a design's steps (core/statistics/design.h).
struct Contrast {
  ContrastRow row;
  std::optional<Effect> effect = {}; // the weighted sum of its pairs' effects
  ContrastState state = ContrastState::Undecided;
  Reason reason = {}; // why it is undecided
};

// What keeps the A/A control of a cell from an alarm.
enum class NoAlarm { FewLaunches, Chance, SmallEffect };

struct ControlReport {
  Comparison comparison; // control against reference; its verdict is not used
  bool alarm = false; // three launches, p < .005 and |effect| above the smallest effect of interest
  std::optional<NoAlarm> no_alarm = {}; // the first of these that is not so; an effect is there
};

// Timed launches that ended before their last round, by what became of their rounds.
struct PartialLaunches {
  int counted = 0, left_out = 0;
};

struct CellReport {
  CellRow cell;
  std::string summary, equivalence; // of the optimization
  std::optional<ControlReport> control;
  std::string design; // of its steps, or ""
  std::vector<Comparison> comparisons;
  std::vector<Contrast> contrasts; // of a design
  std::vector<VariantSpeed> speed; // the roofline of each timed variant
  std::string no_speed;            // why a timed variant has none, or ""
  int counted_launches = 0;        // that count, of the planned ones
  int launches_with_copies = 0;    // the same with every copy that a merge brought
  int disturbed_launches = 0;      // of launches_with_copies: other work exceeded the plan's limit
  int launches_set_aside = 0;      // repetitions that were more disturbed; they count nowhere
  int superseded_launches = 0;     // timed ones that were measured again
  int replaced_attempts = 0;       // theirs, which count nowhere
  bool redone_by_name = false;     // `--redo` named the cell, whose result may have been known
  PartialLaunches partial;
  int planned_launches = 0;
  double judged_alpha = 0.05; // the report's; of a cell with looks that of its look
  LookState looks;            // of cell.looks
  int loss_launches = 0;      // that are complete, of cell.loss_seeds
  std::vector<LossCurve> loss_curves;
  std::string no_energy;                   // why its energy launch has no figure, or ""
  std::vector<std::string> missing;        // what the plan still owes: "2 of 5 timed launches"
  std::vector<std::string> shape_warnings; // of its variants' shapes
  std::set<std::string> damaged_traces;    // why files that are there cannot be read
};

enum class AlarmCode {
  Retired,
  Untraced, // for want of disk
  ControlDiffers,
  MemoryDiffers, // the baseline's peak memory, measured twice
  PairsExcluded,
  Fallback, // a level ran, in some steps, what another level names
  SeveralMachines,
  MixedEnvironment,
  LaunchFailed,
  TraceDamaged, // a file that is there
  Calibration,  // of the machine: it sees what is not there, or misreads what is
};
// What a reader must know before believing the table.
struct Alarm {
  AlarmCode code{};
  std::int64_t cell = 0;       // CellRow::id; 0: about all of them
  std::string comparison = {}; // "a -> b" of the cell that it is about; "": the whole cell
  std::string text;            // names neither
};
// The constants of docs/report-schema.md: "retired", "control_differs" …
std::string_view to_string(AlarmCode code);

struct LaunchSummary {
  LaunchRow row;
  std::string cell;
  int rounds = 0; // timed ones that are in the ledger
  int warmup_rounds = 0;
  bool interrupted = false; // ended from outside: it did not fail
  bool replaced = false;    // a later attempt was measured; this one counts nowhere
  bool set_aside = false;   // measured again, more disturbed: the earlier attempt counts

  // "complete", "partial", "failed", "interrupted", "running", "replaced", "set aside"
  std::string state() const;
};

// SM clocks of the counted visits of all timed launches.
struct Clocks {
  double lowest_mhz = 0, highest_mhz = 0;
  bool locked = false; // a clock setting bound them in every visit, by the board's own word
};

// What fresh launches of one comparison showed (`assay confirm`).
struct Confirmation {
  std::string cell, a, b; // names
  std::optional<Effect> effect;
  Verdict verdict;
  bool complete = true;         // no launch is missing
  int measured_launches = 0;    // timed ones; those of `effect` count
  std::string build, first_utc; // which worker measured, and when it began
};

// The best of several comparisons (winner.h).
struct Winner {
  std::size_t cell = 0, comparison = 0; // of Report::cells
  int among = 0;                        // comparisons of the plan that were measured
};

struct Report {
  SpecRow spec;
  int judgements = 1;             // m: verdicts and contrasts that the plan asks for
  double judged_alpha = 0.05;     // alpha / m
  int loss_tests = 0;             // that the plan asks for
  double loss_alpha = kTostAlpha; // of each one-sided loss test
  std::vector<CellReport> cells;
  std::vector<ClaimResult> claims;
  std::vector<LaunchSummary> launches; // all, failed ones included
  std::vector<Alarm> alarms;
  // What arithmetic shows about the plan's shapes and the claims' sources.
  std::vector<std::string> shape_warnings, source_errors;
  std::vector<std::string> missing;
  std::vector<EventRow> events;
  std::optional<Winner> winner;
  std::optional<Confirmation> confirmation;
  std::string confirmation_unread; // why the directory of one shows none, or ""
  std::optional<Clocks> clocks;    // nothing without a GPU, or where the board does not say
  std::vector<NoteRow> notes;      // of the plan
  bool threads_vary = false;       // variants of a cell set their own
  std::optional<CalibrationRow> calibration; // of the machine that measured (calibration.h)

  bool complete() const { return missing.empty(); }
};

// m: the verdicts and contrasts that the plan asks for. Every one of them can raise a false alarm,
// whether or not a published claim exists for it. A function of the plan, not of the results.
int count_judgements(const LedgerData& plan);

struct JudgeOptions {
  // Results directory whose traces explain the differences, and whose winner may be confirmed
  // (winner.h); "": neither is read. A claim that names stages is CONFIRMED by traces only.
  std::string traces = {};
  // Results directory that commands in reasons name; "": the one of the recorded command.
  std::string run_again_in = {};
};

// The one way to a report: effects, evidence, verdicts, explanations, roofline and claims. What it
// returns is finished; nothing may change a verdict afterwards. Succeeds on every ledger,
// unfinished and empty ones included.
Report judge_results(const LedgerData& data, const JudgeOptions& options = {});
// Of the positions of the variant's steps; 0 where it was not measured.
double padding_share_of(const CellReport& cell, const std::string& variant);

// What the report contains about one cell, and about the whole run: no other cell's rows, alarms,
// claims, launches or notes. `cell` is a name of report.cells. The plan's figures (judgements,
// alpha) stay those of all cells.
Report report_of_cell(const Report& report, const std::string& cell);

// The claim results that a comparison of a cell bears on, in ledger order.
std::vector<const ClaimResult*>
claims_of(const Report& report, std::size_t cell, std::size_t comparison);

} // namespace assay
