#include "experiments/export/chrome_writer.h"

#include <utility>

#include "core/files/json_text.h"

namespace assay {

void ChromeWriter::raw(std::string_view text) {
  buffer_ += text;
}

void ChromeWriter::flush() {
  file_.write(std::exchange(buffer_, {}));
}

void ChromeWriter::begin(char phase, ChromeTrack track, std::string_view name) {
  buffer_ += events_++ == 0 ? "\n  {\"ph\":\"" : ",\n  {\"ph\":\"";
  buffer_ += phase;
  buffer_ += "\",\"name\":\"";
  buffer_ += name;
  buffer_ += "\",\"pid\":";
  append_integer(buffer_, track.pid);
  buffer_ += ",\"tid\":";
  append_integer(buffer_, track.tid);
}

void ChromeWriter::end() {
  buffer_ += '}';
  if (buffer_.size() < kOutputChunk) return;
  flush();
  buffer_.reserve(kOutputChunk + (1 << 14));
}

void ChromeWriter::slice(std::string_view category,
                         std::string_view name,
                         ChromeTrack track,
                         std::int64_t start,
                         std::int64_t duration) {
  begin('X', track, name);
  buffer_ += ",\"cat\":\"";
  buffer_ += category;
  buffer_ += "\",\"ts\":";
  append_microseconds(buffer_, start);
  buffer_ += ",\"dur\":";
  append_microseconds(buffer_, duration);
}

void ChromeWriter::begin_arg(std::string_view key) {
  buffer_ += has_args_ ? ",\"" : ",\"args\":{\"";
  has_args_ = true;
  buffer_ += key;
  buffer_ += "\":";
}

void ChromeWriter::arg(std::string_view key, std::int64_t value) {
  begin_arg(key);
  append_integer(buffer_, value);
}

void ChromeWriter::arg(std::string_view key, std::int64_t x, std::int64_t y, std::int64_t z) {
  begin_arg(key);
  buffer_ += '[';
  append_integer(buffer_, x);
  buffer_ += ',';
  append_integer(buffer_, y);
  buffer_ += ',';
  append_integer(buffer_, z);
  buffer_ += ']';
}

void ChromeWriter::arg_number(std::string_view key, double value) {
  begin_arg(key);
  append_number(buffer_, value);
}

void ChromeWriter::arg_text(std::string_view key, std::string_view escaped) {
  begin_arg(key);
  buffer_ += '"';
  buffer_ += escaped;
  buffer_ += '"';
}

void ChromeWriter::close() {
  if (std::exchange(has_args_, false)) buffer_ += '}';
  end();
}

void ChromeWriter::flow(
    char phase, std::string_view category, std::int64_t id, ChromeTrack track, std::int64_t time) {
  begin(phase, track, category);
  buffer_ += ",\"cat\":\"";
  buffer_ += category;
  buffer_ += "\",\"id\":";
  append_integer(buffer_, id);
  buffer_ += ",\"ts\":";
  append_microseconds(buffer_, time);
  if (phase == 'f') buffer_ += ",\"bp\":\"e\"";
  end();
}

void ChromeWriter::flow_start(std::string_view category,
                              std::int64_t id,
                              ChromeTrack track,
                              std::int64_t time) {
  flow('s', category, id, track, time);
}

void ChromeWriter::flow_end(std::string_view category,
                            std::int64_t id,
                            ChromeTrack track,
                            std::int64_t time) {
  flow('f', category, id, track, time);
}

void ChromeWriter::counter(std::string_view name,
                           std::int64_t pid,
                           std::int64_t time,
                           double value) {
  begin('C', {pid, 0}, name);
  buffer_ += ",\"ts\":";
  append_microseconds(buffer_, time);
  arg_number("value", value);
  close();
}

void ChromeWriter::instant(std::string_view category,
                           std::string_view name,
                           ChromeTrack track,
                           std::int64_t time,
                           char scope) {
  begin('i', track, name);
  buffer_ += ",\"cat\":\"";
  buffer_ += category;
  buffer_ += "\",\"s\":\"";
  buffer_ += scope;
  buffer_ += "\",\"ts\":";
  append_microseconds(buffer_, time);
  end();
}

void ChromeWriter::label(std::string_view what,
                         ChromeTrack track,
                         std::string_view key,
                         std::string_view text) {
  begin('M', track, what);
  buffer_ += ",\"ts\":0.000";
  arg_text(key, text);
  close();
}

void ChromeWriter::sort_index(std::string_view what, ChromeTrack track, std::int64_t index) {
  begin('M', track, what);
  buffer_ += ",\"ts\":0.000";
  arg("sort_index", index);
  close();
}

} // namespace assay
