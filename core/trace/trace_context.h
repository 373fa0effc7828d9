// What the rows of a trace mention without saying more: process, threads, devices, streams, NVTX
// domains and the first and last time. TraceWriter notes it of every batch and writes the tables
// for it at the end.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/sqlite/database.h"
#include "core/trace/trace.h"
#include "core/trace/trace_names.h"

namespace assay {

class TraceContext {
public:
  using Info = std::map<std::string, std::string>; // ASSAY_RUN

  void note(const TraceBatch& batch);
  // Of the host rows; before there are any, this process.
  std::int64_t global_pid() const;

  // `epoch`: the session's start, UTC nanoseconds.
  void write_session(const Database& db, std::int64_t epoch, const Info& info) const;
  void write_machine(const Database& db, const Info& info) const;
  void write_threads(const Database& db, NameTable& names) const;
  void write_domains(const Database& db, std::int64_t epoch, const NameTable& names) const;

private:
  template <class Row> void note_times(const std::vector<Row>& batch);
  template <class Row> void note_device(const std::vector<Row>& batch);
  template <class Row> void note_threads(const std::vector<Row>& batch);

  std::int64_t global_pid_ = 0;       // 0: no host row yet
  std::int64_t first_ = 0, last_ = 0; // of all time stamps that are not lost; absolute
  std::set<std::uint32_t> devices_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> streams_; // context, stream
  std::set<std::int64_t> threads_;
  std::map<NameId, std::pair<std::int64_t, std::int64_t>> domains_; // first start, its thread
};

} // namespace assay
