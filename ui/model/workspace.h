// Workspace: the only state of the viewer. Screens read it, commands change it, the loader answers
// its requests. What was loaded is immutable and shared.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ui/model/compare_pane.h"
#include "ui/model/gaps.h"
#include "ui/model/results/results.h"
#include "ui/model/theme_kind.h"
#include "ui/model/trace/state.h"
#include "ui/model/trace/trace_view.h"

namespace assay {

inline constexpr float kMinScale = 0.75F, kMaxScale = 3;

enum class ScreenId { Start, Runs, Compare, Timeline, Kernels, Telemetry };
inline constexpr std::size_t kScreens = 6;

struct LoadRequest {
  enum class Kind { Results, Trace, Gaps, Difference };
  Kind kind = Kind::Results;
  std::string path;
  std::size_t side = 0;     // traces and their gaps: 0 is the baseline
  std::uint64_t ticket = 0; // an answer to an older ticket is dropped
  std::array<std::shared_ptr<const TraceView>, 2> views = {}; // Difference: of these
};

struct TraceSlot { // one side of the comparison
  std::string variant, path;
  std::shared_ptr<const TraceView> view;
  std::string why_none;      // once loading has ended without a view
  std::vector<IdleGap> gaps; // inside its steps; read after the view
  std::string why_no_gaps;   // the error of reading them
  bool gaps_loading = false;
  std::uint64_t ticket = 0;
  bool loading = false;
};

enum class KernelSort { Difference, Name, Class, Stage, CallsA, CallsB, TimeA, TimeB, Status };

struct KernelState {
  bool operators = false;
  std::string filter;
  KernelSort sort = KernelSort::Difference;
  bool descending = true;
  std::size_t row = 0;
  double least_share = 0; // rows below this share of the baseline's step are dimmed
  bool scroll_to_row = false;
};

struct Location { // what Back and Forward return to
  ScreenId screen = ScreenId::Start;
  std::size_t row = 0;
  std::optional<Stage> stage;
  bool operator==(const Location&) const = default;
};

struct CommandPalette {
  bool open = false;
  std::string query;
  std::size_t row = 0;
};

struct Target { // where something that can be clicked was drawn in the last frame; for scripts
  std::string id;
  float x = 0, y = 0;
};

struct Workspace {
  // What is open
  std::string path;
  std::shared_ptr<const Results> results;
  std::string open_error;
  bool loading = false;
  std::uint64_t ticket = 0;
  std::array<TraceSlot, 2> traces;
  std::vector<IdleGap> gaps;                     // of both traces, longest first
  bool single_trace = false;                     // `path` is a trace file
  std::string other_path;                        // a second one, as the candidate; "": none
  std::shared_ptr<const Explanation> difference; // of the two files, once both are read
  std::vector<LoadRequest> requests;

  // What is shown
  ScreenId screen = ScreenId::Start;
  std::size_t row = 0; // comparison, index into Results::verdicts.rows
  std::optional<Stage> stage;
  std::size_t launch = 0;          // Runs: index into Report::launches
  std::string section;             // Runs: id of the section below the table; "": the launches
  std::optional<ComparePane> pane; // Compare: what was chosen for its right side
  TimelineState timeline;
  KernelState kernels;
  TimeRange telemetry; // ns after the first event; span 0: the whole trace
  std::vector<Location> back, forward;
  std::string find_name; // to be selected in the timeline as soon as a trace is there

  // Window
  bool help = false, details = true, quit = false;
  bool scroll_to_selected = false, focus_input = false;
  float scroll_details = 0; // lines to scroll the details by in the next frame
  CommandPalette palette;
  std::string path_input, status; // status: the last action's message
  std::string copied;             // for the clipboard, taken by the window
  std::string screenshot;         // to be written after this frame
  std::vector<std::string> recent;
  ThemeKind theme = ThemeKind::Dark;
  float scale = 1;
  float initial_scale = 1; // what Ctrl+0 returns to
  std::vector<Target> targets;

  const VerdictModel* verdicts() const { return results ? &results->verdicts : nullptr; }
  const Comparison* comparison() const; // the selected one, or null
  const CellReport* cell() const;
  const Explanation* explanation() const;
  const LossModel* loss() const; // of the selected comparison, or null
  const Section* speed() const;  // throughput and roofline
  const MemoryModel* memory() const;
};

// Starts to load a results directory, its ledger, or one or two trace files, also those of other
// programs (experiments/import).
void open_path(Workspace& workspace, const std::string& path, const std::string& other = "");
void reload(Workspace& workspace);

void go_to(Workspace& workspace, ScreenId screen); // remembers where it came from
void go_back(Workspace& workspace);
void go_forward(Workspace& workspace);
void select_row(Workspace& workspace, std::ptrdiff_t step);
void select_comparison(Workspace& workspace, std::size_t row);
void set_scale(Workspace& workspace, float scale);
// Asks for the traces of the selected comparison if the screen shows them and they are not there.
void request_traces(Workspace& workspace);

std::string_view id_of(ScreenId screen); // "runs"

} // namespace assay
