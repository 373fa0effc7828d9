#include "experiments/export/export_chrome.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "core/files/json_text.h"
#include "core/files/output_file.h"
#include "core/text.h"
#include "core/trace/trace_file.h"
#include "experiments/export/chrome_trace.h"
#include "experiments/export/chrome_writer.h"

namespace assay {

namespace {

// Tables whose rows become slices.
constexpr const char* kTimedTables[] = {"CUPTI_ACTIVITY_KIND_KERNEL",
                                        "CUPTI_ACTIVITY_KIND_MEMCPY",
                                        "CUPTI_ACTIVITY_KIND_MEMSET",
                                        "CUPTI_ACTIVITY_KIND_RUNTIME",
                                        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                                        "PROFILER_OVERHEAD",
                                        "NVTX_EVENTS",
                                        "ASSAY_OPERATOR",
                                        "ASSAY_STEP"};

struct Input {
  Trace trace; // steps and what the run was
  std::unique_ptr<Database> database;
  StepSelection selection;
  ChromeSide side;
};

// Time of the earliest row that is exported: the window's begin, if there is one.
std::int64_t earliest(const Input& input, bool window) {
  if (window) return input.selection.range.begin;
  std::int64_t first = 0;
  for (const char* table : kTimedTables) {
    Statement s =
        input.database->prepare(fmt::format("SELECT min(start) FROM {} WHERE start <> 0", table));
    if (s.step()) first = std::min(first, s.maybe_integer(0).value_or(0));
  }
  Statement telemetry = input.database->prepare("SELECT min(timestamp) FROM GPU_METRICS");
  if (telemetry.step()) first = std::min(first, telemetry.maybe_integer(0).value_or(0));
  return first;
}

std::int64_t rows_without_time(const Database& database) {
  std::int64_t lost = 0;
  for (const char* table : kTimedTables)
    lost += database.integer(fmt::format("SELECT count(*) FROM {} WHERE start = 0", table));
  return lost;
}

Input open_input(const std::string& path, const std::optional<StepWindow>& window) {
  Input input;
  input.trace = value_or_throw(read_trace(path, kTraceSteps));
  input.database = std::make_unique<Database>(path, Database::Mode::Immutable);
  input.selection = select_steps(input.trace, window);
  if (window) input.side.window = input.selection.range;
  input.side.variant = escape_json(input.trace.value("variant"));
  return input;
}

// The first steps begin together and nothing begins before the document's base. Returns the
// base in UTC nanoseconds.
std::int64_t align(std::vector<Input>& inputs, bool window) {
  std::int64_t before = 0; // how far rows reach before the baseline's session start
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ChromeSide& side = inputs[i].side;
    side.index = static_cast<std::int64_t>(i);
    if (inputs.size() > 1) {
      side.prefix = i == 0 ? "baseline · " : "candidate · ";
      side.shift_ns =
          inputs[0].selection.steps.front().start - inputs[i].selection.steps.front().start;
    }
    before = std::min(before, earliest(inputs[i], window) + side.shift_ns);
  }
  for (Input& input : inputs) input.side.shift_ns -= before;
  return inputs[0].trace.session_start_utc_ns + before;
}

std::string number_or_null(const Trace& trace, const char* key) {
  const std::string value = trace.value(key);
  const bool digits = !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
  return digits ? value : "null";
}

std::string header(const Trace& trace, std::int64_t base_utc_ns) {
  const std::string rank = number_or_null(trace, "rank");
  std::string text = "{\n";
  text += "  \"schemaVersion\": 1,\n";
  text += "  \"deviceProperties\": [],\n";
  for (const char* key : {"cupti_version", "cuda_runtime_version", "cuda_driver_version"})
    text += fmt::format("  \"{}\": {},\n", key, number_or_null(trace, key));
  // HTA finds the rank by a pattern that needs the blank after the colon.
  const bool alone = trace.value("world_size").empty();
  text += fmt::format("  \"distributedInfo\": {{\"backend\": \"{}\", \"rank\": {}, "
                      "\"world_size\": {}, \"pg_count\": 0, \"pg_config\": [], "
                      "\"nccl_version\": \"\"}},\n",
                      alone ? "" : "nccl",
                      rank == "null" ? "0" : rank,
                      alone ? "1" : number_or_null(trace, "world_size"));
  text += "  \"displayTimeUnit\": \"ms\",\n";
  text += fmt::format("  \"baseTimeNanoseconds\": {},\n", base_utc_ns);
  return text + "  \"traceEvents\": [";
}

// Where an iteration ends, as Kineto marks it.
void write_marks(const Input& input, ChromeWriter& out) {
  if (input.selection.steps.empty()) return;
  std::int64_t end = input.selection.steps.front().end;
  for (const StepRow& step : input.selection.steps) end = std::max(end, step.end);
  const std::int64_t thread = input.selection.steps.front().global_tid;
  const ChromeTrack track{chrome_pid(pid_of(thread), input.side.index), tid_of(thread)};
  const std::int64_t shift = input.side.shift_ns;
  out.instant("overhead",
              fmt::format("Iteration Start: {}", input.side.prefix + input.side.variant),
              track,
              input.selection.steps.front().start + shift,
              'g');
  out.instant("overhead", "Record Window End", track, end + shift, 'g');
}

} // namespace

StepSelection select_steps(const Trace& trace, const std::optional<StepWindow>& window) {
  StepSelection selection;
  for (const StepRow& step : trace.steps)
    if (step.start != 0 && (!window || (step.step >= window->first && step.step <= window->last)))
      selection.steps.push_back(step);
  if (!window) return selection;
  if (selection.steps.empty()) {
    if (trace.steps.empty())
      bad_input("{}: the trace has no steps; export it without --steps", trace.path);
    bad_input("{}: has steps {} to {}, not {}{}",
              trace.path,
              trace.steps.front().step,
              trace.steps.back().step,
              window->first,
              window->last == window->first ? "" : fmt::format(" to {}", window->last));
  }
  selection.range.begin = selection.steps.front().start;
  selection.range.end = selection.range.begin;
  for (const StepRow& step : selection.steps)
    selection.range.end = std::max(selection.range.end, step.end);
  return selection;
}

ExportSummary export_chrome(const std::vector<std::string>& traces,
                            const std::optional<StepWindow>& steps,
                            const std::string& out) {
  std::vector<Input> inputs;
  for (const std::string& path : traces) inputs.push_back(open_input(path, steps));
  if (inputs.size() > 1)
    for (const Input& input : inputs)
      if (input.selection.steps.empty())
        bad_input("{}: has no steps to align with the other trace; export it alone",
                  input.trace.path);
  const std::int64_t base = align(inputs, steps.has_value());
  ExportSummary summary;
  OutputFile file(out);
  ChromeWriter writer(file);
  writer.raw(header(inputs[0].trace, base));
  for (const Input& input : inputs) {
    const ChromeCounts counts = ChromeTrace(*input.database, input.side, writer).write();
    write_marks(input, writer);
    summary.clamped += counts.clamped;
    summary.moved += counts.moved;
    summary.placed += counts.placed;
    summary.lost += rows_without_time(*input.database);
    summary.steps += static_cast<std::int64_t>(input.selection.steps.size());
  }
  const std::string name = std::filesystem::path(out).filename().string();
  writer.raw(fmt::format("\n  ],\n  \"traceName\": \"{}\"\n}}\n", escape_json(name)));
  writer.flush();
  file.finish();
  summary.events = writer.events();
  summary.bytes = file.bytes();
  return summary;
}

} // namespace assay
