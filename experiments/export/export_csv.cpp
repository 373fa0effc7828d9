#include "experiments/export/export_csv.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "core/files/csv_text.h"
#include "core/files/output_file.h"
#include "core/result.h"
#include "core/trace/trace_file.h"
#include "experiments/attribution/attribution.h"
#include "experiments/attribution/stage_timeline.h"

namespace assay {

namespace {

// A file that is there is replaced only where it begins as this table does.
std::string own_path(const std::string& directory, const char* name, const char* columns) {
  const std::string path = (std::filesystem::path(directory) / name).string();
  std::ifstream there(path);
  std::string line;
  if (std::getline(there, line) && line != fmt::format("{}\r", columns))
    bad_input("{}: this file is there and was not exported with these columns; choose another "
              "directory with --out",
              path);
  return path;
}

class Table {
public:
  Table(const std::string& directory, const char* name, const char* columns)
      : file_(own_path(directory, name, columns)) {
    text_ = fmt::format("{}\r\n", columns);
  }

  template <class... Args> void row(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += "\r\n";
    ++rows_;
    if (text_.size() >= kOutputChunk) file_.write(std::exchange(text_, {}));
  }
  void finish(ExportSummary& summary) {
    file_.write(std::exchange(text_, {}));
    file_.finish();
    summary.events += rows_;
    summary.bytes += file_.bytes();
  }

private:
  OutputFile file_;
  std::string text_;
  std::int64_t rows_ = 0;
};

struct Tables {
  explicit Tables(const std::string& directory)
      : steps(directory,
              "steps.csv",
              "variant,step,round,position,counted,start_ns,end_ns,wall_ns,tokens"),
        stages(directory,
               "stages.csv",
               "variant,step,round,position,counted,stage,start_ns,end_ns,ns"),
        device(directory,
               "device.csv",
               "variant,kind,name,start_ns,end_ns,ns,device,context,stream,correlation,"
               "registers_per_thread,static_shared_bytes,dynamic_shared_bytes,grid_x,grid_y,grid_z,"
               "block_x,block_y,block_z,bytes"),
        operators(
            directory, "operators.csv", "variant,name,backward,stage,start_ns,end_ns,ns,thread"),
        telemetry(directory, "telemetry.csv", "variant,metric,source,status,time_ns,value") {}

  Table steps, stages, device, operators, telemetry;
};

void write_steps(const Trace& trace,
                 const StepSelection& selection,
                 const std::string& variant,
                 Tables& to) {
  for (const StepRow& s : selection.steps)
    to.steps.row("{},{},{},{},{},{},{},{},{}",
                 variant,
                 s.step,
                 s.round,
                 s.position,
                 s.counted ? 1 : 0,
                 s.start,
                 s.end,
                 s.end - s.start,
                 s.tokens);
  for (const StepTiling& tiling : tile_steps(trace)) {
    const StepRow& s = tiling.step;
    bool selected = false;
    for (const StepRow& one : selection.steps) selected = selected || one.step == s.step;
    if (!selected) continue;
    for (const StageSegment& segment : tiling.segments)
      to.stages.row("{},{},{},{},{},{},{},{},{}",
                    variant,
                    s.step,
                    s.round,
                    s.position,
                    s.counted ? 1 : 0,
                    to_string(segment.stage),
                    segment.start,
                    segment.end,
                    segment.end - segment.start);
  }
}

void write_device(const Trace& trace, TimeRange range, const std::string& variant, Tables& to) {
  const Database database(trace.path, Database::Mode::Immutable);
  DeviceCursor rows(database, range);
  for (DeviceItem d; rows.next(d);) {
    const bool kernel = d.kind == DeviceKind::Kernel, copy = d.kind == DeviceKind::Copy;
    const std::string name = kernel ? trace.names.at(static_cast<std::size_t>(d.name))
                             : copy ? copy_name(d.copy_kind, d.src_kind, d.dst_kind)
                                    : set_name(d.dst_kind);
    const std::string work = kernel ? fmt::format("{},{},{},{},{},{},{},{},{},",
                                                  d.registers_per_thread,
                                                  d.static_shared,
                                                  d.dynamic_shared,
                                                  d.grid[0],
                                                  d.grid[1],
                                                  d.grid[2],
                                                  d.block[0],
                                                  d.block[1],
                                                  d.block[2])
                                    : fmt::format(",,,,,,,,,{}", d.bytes);
    to.device.row("{},{},{},{},{},{},{},{},{},{},{}",
                  variant,
                  kernel ? "kernel"
                  : copy ? "copy"
                         : "set",
                  csv_field(name),
                  d.start,
                  d.end,
                  d.end - d.start,
                  d.device,
                  d.context,
                  d.stream,
                  d.correlation,
                  work);
  }
}

// The stage is that of the step's thread, also for operators of autograd's threads.
void write_operators(const Trace& trace, TimeRange range, const std::string& variant, Tables& to) {
  if (trace.steps.empty()) return;
  const StageTimeline timeline(trace, trace.steps.front().global_tid);
  for (const HostEvent& call : trace.operators) {
    if (call.start < range.begin || call.start >= range.end) continue;
    const std::optional<Stage> stage = timeline.at(call.start);
    to.operators.row("{},{},{},{},{},{},{},{}",
                     variant,
                     csv_field(trace.name(call.name)),
                     call.backward || stage == Stage::Backward ? 1 : 0,
                     stage ? to_string(*stage) : "",
                     call.start,
                     call.end,
                     call.end - call.start,
                     trace.threads[call.thread]);
  }
}

// A series that the machine refused is one row without a value.
void write_telemetry(const Trace& trace, TimeRange range, const std::string& variant, Tables& to) {
  for (const TelemetrySeries& series : trace.telemetry) {
    const std::string start = fmt::format("{},{},{},{}",
                                          variant,
                                          csv_field(series.metric.name),
                                          csv_field(series.metric.source),
                                          csv_field(series.metric.status));
    if (series.metric.status != "ok") to.telemetry.row("{},,", start);
    for (std::size_t i = 0; i < series.time.size(); ++i)
      if (series.time[i] >= range.begin && series.time[i] < range.end)
        to.telemetry.row("{},{},{}", start, series.time[i], series.value[i]);
  }
}

} // namespace

ExportSummary export_csv(const std::vector<std::string>& traces,
                         const std::optional<StepWindow>& steps,
                         const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error || !std::filesystem::is_directory(directory))
    bad_input("cannot make the directory {}: {}; choose another one with -o",
              directory,
              error ? error.message() : "a file has this name");
  ExportSummary summary;
  Tables tables(directory);
  for (const std::string& path : traces) {
    const Trace trace = value_or_throw(read_trace(path));
    const StepSelection selection = select_steps(trace, steps);
    const std::string variant = csv_field(trace.value("variant"));
    write_steps(trace, selection, variant, tables);
    write_device(trace, selection.range, variant, tables);
    write_operators(trace, selection.range, variant, tables);
    write_telemetry(trace, selection.range, variant, tables);
    summary.steps += static_cast<std::int64_t>(selection.steps.size());
  }
  for (Table* table :
       {&tables.steps, &tables.stages, &tables.device, &tables.operators, &tables.telemetry})
    table->finish(summary);
  return summary;
}

} // namespace assay
