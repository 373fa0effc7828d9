#include "core/trace/trace_context.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <tuple>

namespace assay {

namespace {

std::string time_text(std::int64_t utc_ns, bool local) {
  const std::time_t seconds = utc_ns / 1'000'000'000;
  std::tm parts{};
  if (local)
    ::localtime_r(&seconds, &parts);
  else
    ::gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  std::strftime(
      text.data(), text.size(), local ? "%Y-%m-%dT%H:%M:%S%z" : "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

// What the system calls the thread, or "" when it is not of this process or has ended.
std::string thread_name(std::int64_t global_tid) {
  if (pid_of(global_tid) != ::getpid()) return "";
  std::ifstream file(fmt::format("/proc/self/task/{}/comm", tid_of(global_tid)));
  std::string name;
  std::getline(file, name);
  return name;
}

} // namespace

template <class Row> void TraceContext::note_times(const std::vector<Row>& batch) {
  for (const Row& row : batch) {
    if (row.start != 0 && (first_ == 0 || row.start < first_)) first_ = row.start;
    last_ = std::max(last_, row.end);
  }
}

template <class Row> void TraceContext::note_device(const std::vector<Row>& batch) {
  std::tuple<std::uint32_t, std::uint32_t, std::uint32_t> previous{~0U, ~0U, ~0U};
  for (const Row& row : batch) {
    const std::tuple now{row.device, row.context, row.stream};
    if (now == previous) continue;
    previous = now;
    devices_.insert(row.device);
    streams_.insert({row.context, row.stream});
  }
}

template <class Row> void TraceContext::note_threads(const std::vector<Row>& batch) {
  std::int64_t previous = 0;
  for (const Row& row : batch) {
    if (row.global_tid == previous) continue;
    previous = row.global_tid;
    threads_.insert(previous);
    if (global_pid_ == 0) global_pid_ = pid_of(previous) << 24;
  }
}

void TraceContext::note(const TraceBatch& batch) {
  note_threads(batch.steps);
  note_threads(batch.api);
  note_threads(batch.ranges);
  note_threads(batch.operators);
  note_threads(batch.overhead);
  note_device(batch.kernels);
  note_device(batch.copies);
  note_device(batch.sets);
  note_times(batch.kernels);
  note_times(batch.copies);
  note_times(batch.sets);
  note_times(batch.api);
  note_times(batch.syncs);
  note_times(batch.overhead);
  note_times(batch.ranges);
  note_times(batch.operators);
  note_times(batch.steps);
  for (const RangeRow& row : batch.ranges)
    if (row.domain != 0) domains_.try_emplace(row.domain, row.start, row.global_tid);
}

std::int64_t TraceContext::global_pid() const {
  return global_pid_ != 0 ? global_pid_ : std::int64_t{::getpid()} << 24;
}

void TraceContext::write_session(const Database& db, std::int64_t epoch, const Info& info) const {
  db.prepare("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?1, ?2, ?3, NULL)")
      .bind(1, epoch)
      .bind(2, time_text(epoch, false))
      .bind(3, time_text(epoch, true))
      .run();
  const std::int64_t start = first_ == 0 ? 0 : first_ - epoch,
                     stop = last_ == 0 ? 0 : last_ - epoch;
  db.prepare("INSERT INTO ANALYSIS_DETAILS VALUES (0, ?1, ?2, ?3)")
      .bind(1, stop - start)
      .bind(2, start)
      .bind(3, stop)
      .run();
  Statement run = db.prepare("INSERT INTO ASSAY_RUN VALUES (?1, ?2)");
  Statement environment =
      db.prepare("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, 'Assay', ?1, 0, ?2)");
  for (const auto& [name, value] : info) {
    run.bind(1, name).bind(2, value).run();
    environment.bind(1, name).bind(2, value).run();
  }
}

void TraceContext::write_machine(const Database& db, const Info& info) const {
  const std::int64_t pid = global_pid() >> 24;
  const auto value = [&info](const char* key) {
    const auto found = info.find(key);
    return found == info.end() || found->second.empty()
               ? std::nullopt
               : std::optional<std::string_view>(found->second);
  };
  for (const std::int64_t device : devices_) {
    db.prepare("INSERT INTO TARGET_INFO_GPU(vmId, id, name, isDiscrete, uuid, cuDevice) "
               "VALUES (0, ?1, ?2, 1, ?3, ?1)")
        .bind(1, device)
        .bind(2, value("gpu"))
        .bind(3, value("gpu_uuid"))
        .run();
    db.prepare("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (?1, ?1, ?2, ?3, NULL)")
        .bind(1, device)
        .bind(2, pid)
        .bind(3, value("gpu_uuid"))
        .run();
  }
  for (const auto& [context, stream] : streams_)
    db.prepare("INSERT INTO TARGET_INFO_CUDA_STREAM VALUES (?1, 0, 0, ?2, ?3, 0, 0)")
        .bind(1, std::int64_t{stream})
        .bind(2, pid)
        .bind(3, std::int64_t{context})
        .run();
  db.prepare("INSERT INTO PROCESSES VALUES (?1, ?2, ?3)")
      .bind(1, global_pid())
      .bind(2, pid)
      .bind(3, value("program"))
      .run();
}

void TraceContext::write_threads(const Database& db, NameTable& names) const {
  Statement statement = db.prepare("INSERT INTO ThreadNames VALUES (?1, NULL, ?2)");
  for (const std::int64_t thread : threads_) {
    const std::string name = thread_name(thread);
    if (!name.empty()) statement.bind(1, std::int64_t{names.intern(name)}).bind(2, thread).run();
  }
}

void TraceContext::write_domains(const Database& db,
                                 std::int64_t epoch,
                                 const NameTable& names) const {
  Statement statement = db.prepare("INSERT INTO NVTX_EVENTS(start, eventType, text, globalTid, "
                                   "domainId) VALUES (?1, 75, ?2, ?3, ?4)");
  for (const auto& [domain, seen] : domains_)
    statement.bind(1, seen.first == 0 ? 0 : seen.first - epoch)
        .bind(2, names[domain])
        .bind(3, seen.second)
        .bind(4, std::int64_t{domain})
        .run();
}

} // namespace assay
