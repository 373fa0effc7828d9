// ChromeWriter: the syntax of Chrome trace events, one per line, as Kineto writes them; independent
// of traces. Times are nanoseconds from the document's base.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/files/output_file.h"

namespace assay {

struct ChromeTrack { // a row of the timeline
  std::int64_t pid = 0, tid = 0;
};

class ChromeWriter {
public:
  explicit ChromeWriter(OutputFile& file) : file_(file) {}

  // Text of the document before and after the events.
  void raw(std::string_view text);

  // A slice (ph X) without its arguments; each `arg` adds one, then close(). `name` is escaped.
  void slice(std::string_view category,
             std::string_view name,
             ChromeTrack track,
             std::int64_t start,
             std::int64_t duration);
  void arg(std::string_view key, std::int64_t value);
  void arg(std::string_view key, std::int64_t x, std::int64_t y, std::int64_t z); // "[x, y, z]"
  void arg_number(std::string_view key, double value);
  void arg_text(std::string_view key, std::string_view escaped);
  void close();

  // An arrow from one slice (its start) to another; `id` is unique within the category.
  void flow_start(std::string_view category, std::int64_t id, ChromeTrack track, std::int64_t time);
  void flow_end(std::string_view category, std::int64_t id, ChromeTrack track, std::int64_t time);
  void counter(std::string_view name, std::int64_t pid, std::int64_t time, double value);
  // Scope g (everything), p (process) or t (thread).
  void instant(std::string_view category,
               std::string_view name,
               ChromeTrack track,
               std::int64_t time,
               char scope);
  // process_name, thread_name, process_labels: text; *_sort_index: a number.
  void label(std::string_view what, ChromeTrack track, std::string_view key, std::string_view text);
  void sort_index(std::string_view what, ChromeTrack track, std::int64_t index);

  void flush(); // hands what is left to the file
  std::int64_t events() const { return events_; }

private:
  void begin(char phase, ChromeTrack track, std::string_view name);
  void begin_arg(std::string_view key);
  void end();
  void flow(
      char phase, std::string_view category, std::int64_t id, ChromeTrack track, std::int64_t time);

  OutputFile& file_;
  std::string buffer_;
  std::int64_t events_ = 0;
  bool has_args_ = false;
};

} // namespace assay
