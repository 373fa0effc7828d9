// Launches that are measured again on request: `assay run --redo`. The wishes are events of the
// ledger, so that whatever ends a run, the same results know what is still to be repeated.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"

namespace assay {

// Whether a launch is to be measured again: a `redo` event asks for it, and no later launch has
// taken its place or was set aside since.
bool redo_is_asked(const LedgerData& data, const LaunchRow& launch);

struct DisturbedLaunch {
  std::int64_t launch = 0, cell = 0;
  std::int64_t disturbed = 0, rounds = 0; // counted rounds
  bool beyond = false;                    // more rounds disturbed than the plan's limit

  double share() const {
    return rounds == 0 ? 1.0 : static_cast<double>(disturbed) / static_cast<double>(rounds);
  }
};
// Every timed launch that counts, by covariates alone, never by times. Needs the visits.
std::vector<DisturbedLaunch> disturbed_rounds(const LedgerData& data);

inline constexpr const char* kAllCells = "*"; // no name of a cell
// In a results directory: the matrix of `assay ab`, and one that `assay run -` has read.
inline constexpr const char* kKeptMatrix = "matrix.toml";

// The command of a run that continues its results: `cell` alone where the run named cells ("":
// those that it named), in `directory` where that is known ("": as recorded). With a directory the
// matrix is a file that reads as the stored one, or the word MATRIX; one that came from standard
// input comes from there again. It begins with `cd` to where
// the run was started, unless that is the current directory, unknown or gone. Merged results have
// the command of each part; there the first is taken, with DIR for its results.
std::string continue_command(const SpecRow& spec,
                             const std::string& cell = "",
                             const std::string& directory = "");
// The same, and it measures launches again: the disturbed ones, or those of the cells `again`.
std::string redo_command(const SpecRow& spec,
                         const std::string& cell = "",
                         const std::string& directory = "",
                         const std::vector<std::string>& again = {kCauseDisturbed});

// The same in the words of the recorded command alone, so that a report has the same bytes wherever
// its results lie.
std::string
recorded_redo_command(SpecRow spec, const std::string& cell, const std::vector<std::string>& again);

struct RedoSelection {
  std::vector<std::string> what;  // names of cells, or "disturbed"
  std::vector<std::string> cells; // "disturbed" means launches of these alone; empty: of all
  bool chooses(const std::string& cell) const;
};

// The timed launches to measure again: of the cells that are named, and, for "disturbed", those in
// which more rounds than the plan's limit were disturbed. While a wish of the same selection is
// open, its round goes on: no launch is asked again that this round has measured or still owes.
// Needs the visits.
std::vector<EventRow> redo_events(const LedgerData& data, const RedoSelection& selection);

struct RedoProgress {      // launches of a cell, each once, whatever number of attempts it has
  int asked = 0, done = 0; // `done`: replaced by their repetition
  int set_aside = 0;       // their repetition was disturbed and replaced nothing
};
// By cell: those in which a launch is still to be measured again, since their oldest open wish.
std::map<std::int64_t, RedoProgress> redo_progress(const LedgerData& data);

} // namespace assay
