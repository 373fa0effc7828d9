#include "experiments/import/find_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>

#include "core/text.h"

namespace assay {

namespace {

constexpr std::string_view kProfilerStep = "ProfilerStep#";
constexpr std::size_t kFewestSteps = 3; // that make a repetition
constexpr double kCoverage = 0.5;       // of the trace, by spans that are taken for steps
constexpr double kEqualKernels = 0.95;  // of a repeating sequence

using Span = const RangeRow*;

// "train_step 7", "train_step#7" and "train_step" are one name.
std::string_view without_number(std::string_view name) {
  const std::size_t end = name.find_last_not_of("0123456789");
  if (end == std::string_view::npos) return name;
  std::string_view rest = name.substr(0, end + 1);
  if (rest.size() == name.size()) return name;
  const std::size_t last = rest.find_last_not_of("# _:-");
  return last == std::string_view::npos ? name : rest.substr(0, last + 1);
}

struct Extent {
  std::int64_t start = std::numeric_limits<std::int64_t>::max(), end = 0;
  bool known() const { return start < end; }
  void add(std::int64_t from, std::int64_t to) {
    start = std::min(start, from);
    end = std::max({end, from, to});
  }
};

Extent extent_of(const TraceBatch& rows) {
  Extent extent;
  const auto add = [&](const auto& list) {
    for (const auto& row : list) extent.add(row.start, row.end);
  };
  add(rows.kernels), add(rows.copies), add(rows.sets), add(rows.api), add(rows.ranges);
  add(rows.operators);
  return extent;
}

StepRow step_of(std::size_t index, std::int64_t start, std::int64_t end, std::int64_t thread) {
  StepRow step;
  step.step = static_cast<std::int64_t>(index);
  step.start = start;
  step.end = end;
  step.round = static_cast<int>(index);
  step.global_tid = thread;
  return step;
}

// Those on the thread that has most of them, in order, without what overlaps an earlier one.
std::vector<StepRow> steps_of(std::vector<Span> spans) {
  std::map<std::int64_t, std::size_t> threads;
  for (const Span span : spans) ++threads[span->global_tid];
  const auto most =
      std::ranges::max_element(threads, {}, [](const auto& thread) { return thread.second; });
  std::ranges::stable_sort(spans, {}, [](Span span) { return span->start; });
  std::vector<StepRow> steps;
  for (const Span span : spans) {
    if (span->global_tid != most->first || span->end <= span->start) continue;
    if (!steps.empty() && span->start < steps.back().end) continue;
    steps.push_back(step_of(steps.size(), span->start, span->end, span->global_tid));
  }
  return steps;
}

double covered(const std::vector<StepRow>& steps) {
  double sum = 0;
  for (const StepRow& step : steps) sum += static_cast<double>(step.end - step.start);
  return sum;
}

using SpansByName = std::map<std::string, std::vector<Span>, std::less<>>;

SpansByName spans_by_name(const ImportedRows& rows) {
  SpansByName spans;
  for (const RangeRow& range : rows.rows.ranges) {
    if (range.end <= range.start) continue;
    const std::string& name = rows.name(range.text);
    const bool profiler = name.starts_with(kProfilerStep);
    spans[std::string(profiler ? kProfilerStep : without_number(name))].push_back(&range);
  }
  return spans;
}

Result<FoundSteps> named_steps(const SpansByName& spans, const std::string& name) {
  const auto found = spans.find(name);
  if (found != spans.end())
    if (std::vector<StepRow> steps = steps_of(found->second); !steps.empty())
      return FoundSteps{std::move(steps), fmt::format("spans named {}", printable(name))};
  std::vector<std::pair<std::size_t, std::string>> most;
  for (const auto& [text, list] : spans) most.emplace_back(list.size(), printable(text));
  std::ranges::sort(most, std::greater());
  most.resize(std::min<std::size_t>(most.size(), 8));
  std::vector<std::string> names;
  for (const auto& [count, text] : most) names.push_back(fmt::format("{} ({})", text, count));
  return fail("no span is named '{}'; {}",
              printable(name),
              names.empty() ? "the trace has no spans"
                            : fmt::format("the most frequent are {}", fmt::join(names, ", ")));
}

// The spans that cover most of the trace; of equal ones the fewest, the outermost.
std::optional<FoundSteps> repeated_spans(const SpansByName& spans, const Extent& extent) {
  std::optional<FoundSteps> best;
  double most = kCoverage * static_cast<double>(extent.end - extent.start);
  for (const auto& [name, list] : spans) {
    if (list.size() < kFewestSteps) continue;
    std::vector<StepRow> steps = steps_of(list);
    const double time = covered(steps);
    const bool better = time > most || (best && time == most && steps.size() < best->steps.size());
    if (steps.size() < kFewestSteps || !better) continue;
    most = time;
    best =
        FoundSteps{std::move(steps), fmt::format("spans named {}, which repeat", printable(name))};
  }
  return best;
}

// Kernels of the stream that has most of them, in order.
std::vector<const KernelRow*> busiest_stream(const TraceBatch& rows) {
  std::map<std::array<std::uint32_t, 3>, std::vector<const KernelRow*>> streams;
  for (const KernelRow& kernel : rows.kernels)
    streams[{kernel.device, kernel.context, kernel.stream}].push_back(&kernel);
  const auto most = std::ranges::max_element(
      streams, {}, [](const auto& stream) { return stream.second.size(); });
  if (most == streams.end()) return {};
  std::vector<const KernelRow*> kernels = most->second;
  std::ranges::stable_sort(kernels, {}, [](const KernelRow* kernel) { return kernel->start; });
  return kernels;
}

// Share of kernels that have the name of the one a period later.
double equal_after(const std::vector<const KernelRow*>& kernels, std::size_t period) {
  std::size_t equal = 0;
  for (std::size_t i = 0; i + period < kernels.size(); ++i)
    equal += kernels[i]->demangled == kernels[i + period]->demangled ? 1 : 0;
  return static_cast<double>(equal) / static_cast<double>(kernels.size() - period);
}

// A kernel of the fewest that come at least three times, with the most frequent distance between
// neighbours of it, for each of some rare names.
std::optional<std::pair<std::size_t, std::size_t>> // first index, period
find_period(const std::vector<const KernelRow*>& kernels) {
  constexpr std::size_t kNames = 16;
  std::unordered_map<NameId, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < kernels.size(); ++i) places[kernels[i]->demangled].push_back(i);
  std::vector<const std::vector<std::size_t>*> rare;
  for (const auto& [name, list] : places)
    if (list.size() >= kFewestSteps) rare.push_back(&list);
  std::ranges::sort(
      rare, {}, [](const auto* list) { return std::pair(list->size(), list->front()); });
  rare.resize(std::min(rare.size(), kNames));
  for (const std::vector<std::size_t>* list : rare) {
    std::map<std::size_t, std::size_t> distances;
    for (std::size_t i = 1; i < list->size(); ++i) ++distances[(*list)[i] - (*list)[i - 1]];
    const auto period = std::ranges::max_element(
        distances, {}, [](const auto& distance) { return distance.second; });
    if (period->first * kFewestSteps <= kernels.size() &&
        equal_after(kernels, period->first) >= kEqualKernels)
      return std::pair(list->front() % period->first, period->first);
  }
  return std::nullopt;
}

// By the host's call where it is known: on a GPU a step's work begins with its launch.
std::optional<FoundSteps> repeated_kernels(const ImportedRows& rows) {
  const std::vector<const KernelRow*> kernels = busiest_stream(rows.rows);
  const auto period = find_period(kernels);
  if (!period) return std::nullopt;
  std::unordered_map<std::uint32_t, const ApiRow*> calls;
  for (const ApiRow& call : rows.rows.api)
    if (call.correlation != 0) calls.try_emplace(call.correlation, &call);
  std::vector<std::int64_t> borders;
  std::int64_t thread = 0;
  for (std::size_t i = period->first; i < kernels.size(); i += period->second) {
    const auto call = calls.find(kernels[i]->correlation);
    const bool known = call != calls.end();
    borders.push_back(known ? call->second->start : kernels[i]->start);
    if (known) thread = call->second->global_tid;
  }
  std::ranges::sort(borders);
  FoundSteps found;
  for (std::size_t i = 1; i < borders.size(); ++i)
    found.steps.push_back(step_of(found.steps.size(), borders[i - 1], borders[i], thread));
  if (found.steps.size() < kFewestSteps - 1) return std::nullopt;
  found.how = fmt::format("{} kernels that repeat from {} on",
                          period->second,
                          printable(rows.name(kernels[period->first]->short_name)));
  return found;
}

} // namespace

Result<FoundSteps> find_steps(const ImportedRows& rows, const std::string& name) {
  const SpansByName spans = spans_by_name(rows);
  if (!name.empty()) return named_steps(spans, name);
  if (const auto profiler = spans.find(kProfilerStep); profiler != spans.end())
    if (std::vector<StepRow> steps = steps_of(profiler->second); !steps.empty())
      return FoundSteps{std::move(steps), "annotations ProfilerStep#N"};
  const Extent extent = extent_of(rows.rows);
  if (!extent.known()) return fail("the trace has no events with a time");
  if (std::optional<FoundSteps> found = repeated_spans(spans, extent)) return *found;
  if (std::optional<FoundSteps> found = repeated_kernels(rows)) return *found;
  const TraceBatch& all = rows.rows;
  const std::int64_t thread = !all.api.empty()         ? all.api.front().global_tid
                              : !all.operators.empty() ? all.operators.front().global_tid
                              : !all.ranges.empty()    ? all.ranges.front().global_tid
                                                       : 0;
  return FoundSteps{{step_of(0, extent.start, extent.end, thread)},
                    "nothing repeats, so the whole trace is one step"};
}

// ---- Stages -------------------------------------------------------------------------------------

namespace {

enum class Work : std::uint8_t { Forward, Backward, Optimizer, DataWait };

const char* stage_name(Work work) {
  constexpr std::array<const char*, 4> kNames{"forward", "backward", "optimizer", "data_wait"};
  return kNames[static_cast<std::size_t>(work)];
}

struct Piece {
  std::int64_t start = 0, end = 0;
  Work work = Work::Forward;
};

std::optional<Work> work_of_range(const std::string& name) {
  if (name.starts_with("Optimizer.")) return Work::Optimizer;
  if (name.starts_with("enumerate(DataLoader)")) return Work::DataWait;
  return std::nullopt;
}

// Of all steps, by start: ranges that name their work, and operators of autograd's engine on
// whatever thread, else of the step's.
std::vector<Piece> pieces_of(const ImportedRows& rows, std::int64_t thread) {
  std::vector<Piece> pieces;
  for (const RangeRow& range : rows.rows.ranges)
    if (range.end > range.start)
      if (const auto work = work_of_range(rows.name(range.text)))
        pieces.push_back({range.start, range.end, *work});
  for (const OperatorRow& call : rows.rows.operators) {
    const bool engine = rows.name(call.name).starts_with("autograd::engine::");
    if (engine || call.backward)
      pieces.push_back({call.start, call.end, Work::Backward});
    else if (call.global_tid == thread)
      pieces.push_back({call.start, call.end, Work::Forward});
  }
  std::ranges::stable_sort(pieces, [](const Piece& a, const Piece& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  return pieces;
}

// What begins inside another piece is of that one, whatever it looks like.
std::vector<Piece> outermost(const std::vector<Piece>& pieces, const StepRow& step) {
  std::vector<Piece> outer;
  const auto first = std::ranges::lower_bound(
      pieces, step.start, {}, [](const Piece& piece) { return piece.start; });
  for (auto piece = first; piece != pieces.end() && piece->start < step.end; ++piece) {
    const std::int64_t end = std::min(piece->end, step.end);
    if (outer.empty() || piece->start >= outer.back().end)
      outer.push_back({piece->start, end, piece->work});
    else if (piece->work == outer.back().work)
      outer.back().end = std::max(outer.back().end, end);
  }
  return outer;
}

} // namespace

std::string add_stages(ImportedRows& rows, const std::vector<StepRow>& steps) {
  constexpr std::array<std::string_view, 3> kOwn{"forward", "backward", "optimizer"};
  for (const RangeRow& range : rows.rows.ranges)
    if (std::ranges::find(kOwn, rows.name(range.text)) != kOwn.end())
      return "spans that are named after them";
  if (rows.rows.operators.empty() || steps.empty()) return "none: the trace has no operators";
  const std::vector<Piece> pieces = pieces_of(rows, steps.front().global_tid);
  std::array<NameId, 4> names{};
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = static_cast<NameId>(rows.names.size());
    rows.names.emplace_back(stage_name(static_cast<Work>(i)));
  }
  const auto domain = static_cast<NameId>(rows.names.size());
  rows.names.emplace_back("assay");
  for (const StepRow& step : steps) {
    std::vector<Piece> outer = outermost(pieces, step);
    const bool has_optimizer = std::ranges::any_of(
        outer, [](const Piece& piece) { return piece.work == Work::Optimizer; });
    const auto last_backward = std::ranges::find_if(
        outer.rbegin(), outer.rend(), [](const Piece& p) { return p.work == Work::Backward; });
    if (has_optimizer) // clipping and the like, behind the last backward pass
      for (auto piece = last_backward.base(); piece != outer.end() && last_backward != outer.rend();
           ++piece)
        if (piece->work == Work::Forward) piece->work = Work::Optimizer;
    for (std::size_t i = 0, next = 0; i < outer.size(); i = next) {
      for (next = i + 1; next < outer.size() && outer[next].work == outer[i].work;) ++next;
      RangeRow span;
      span.start = outer[i].start;
      span.end = std::max(outer[next - 1].end, span.start + 1);
      if (next < outer.size()) span.end = std::min(span.end, outer[next].start);
      span.global_tid = step.global_tid;
      span.text = names[static_cast<std::size_t>(outer[i].work)];
      span.domain = domain;
      if (span.end > span.start) rows.rows.ranges.push_back(span);
    }
  }
  return "told apart by operators of autograd's engine and annotations of the optimizer and the "
         "data loader";
}

} // namespace assay
