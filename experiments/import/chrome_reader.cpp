#include "experiments/import/chrome_reader.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "core/text.h"

namespace assay {

namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::min();
constexpr double kMostTime = 4e18; // ns: 126 years, and two of them are within 64 bits

// What of an event's arguments has a column here.
constexpr std::array<std::string_view, 13> kWanted{"device",
                                                   "stream",
                                                   "context",
                                                   "correlation",
                                                   "bytes",
                                                   "registers per thread",
                                                   "shared memory",
                                                   "graph node id",
                                                   "graph id",
                                                   "Sequence number",
                                                   "Fwd thread id",
                                                   "wait_on_stream",
                                                   "rank"};

// A file as a sequence of bytes, which zlib inflates where it is gzip.
class GzipBytes {
public:
  explicit GzipBytes(const std::string& path) : file_(::gzopen(path.c_str(), "rb")) {
    if (file_ != nullptr) (void)::gzbuffer(file_, kBytes);
  }
  ~GzipBytes() {
    if (file_ != nullptr) (void)::gzclose(file_);
  }
  GzipBytes(const GzipBytes&) = delete;
  GzipBytes& operator=(const GzipBytes&) = delete;

  bool is_open() const { return file_ != nullptr; }
  bool fill() {
    const int count = ::gzread(file_, buffer_.data(), kBytes);
    begin_ = buffer_.data();
    end_ = begin_ + std::max(count, 0);
    if (count < 0) failed_ = true;
    return count > 0;
  }
  // gzread() reports a cut member at the end only.
  bool is_damaged() {
    int code = Z_OK;
    (void)::gzerror(file_, &code);
    return failed_ || code == Z_BUF_ERROR || code == Z_DATA_ERROR;
  }
  const char *begin_ = nullptr, *end_ = nullptr;

private:
  static constexpr unsigned kBytes = 1 << 18;
  gzFile file_;
  std::vector<char> buffer_ = std::vector<char>(kBytes);
  bool failed_ = false;
};

// Input iterator over them, for the JSON parser.
class ByteIterator {
public:
  using difference_type = std::ptrdiff_t;
  using value_type = char;
  using pointer = const char*;
  using reference = const char&;
  using iterator_category = std::input_iterator_tag;

  ByteIterator() = default;
  explicit ByteIterator(GzipBytes& bytes) : bytes_(&bytes) { ready(); }
  reference operator*() const { return *bytes_->begin_; }
  ByteIterator& operator++() {
    ++bytes_->begin_;
    ready();
    return *this;
  }
  ByteIterator operator++(int) { // whose result only parsers of other formats use
    ByteIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const ByteIterator& other) const { return bytes_ == other.bytes_; }
  bool operator!=(const ByteIterator& other) const { return bytes_ != other.bytes_; }

private:
  void ready() {
    if (bytes_->begin_ == bytes_->end_ && !bytes_->fill()) bytes_ = nullptr;
  }
  GzipBytes* bytes_ = nullptr;
};

// Some writers give numbers as text, "tid": "7".
std::int64_t whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : kUnknown;
}

struct ChromeEvent {
  std::string phase, category, name;
  std::string pid_text, tid_text;
  std::int64_t pid = kUnknown, tid = kUnknown;
  std::int64_t start = kUnknown, length = kUnknown;      // ns
  std::unordered_map<std::string, std::int64_t> numbers; // of args
  std::map<std::string, std::array<std::int64_t, 3>> triples;

  std::int64_t number(const char* key, std::int64_t absent = 0) const {
    const auto found = numbers.find(key);
    return found == numbers.end() ? absent : found->second;
  }
  void clear() {
    for (std::string* text : {&phase, &category, &name, &pid_text, &tid_text}) text->clear();
    pid = tid = start = length = kUnknown;
    numbers.clear();
    triples.clear();
  }
};

template <class Integer> Integer limited(std::int64_t value) {
  if (std::cmp_greater(value, std::numeric_limits<Integer>::max()))
    return std::numeric_limits<Integer>::max();
  return static_cast<Integer>(std::max<std::int64_t>(value, 0));
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::uint8_t copy_kind_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::uint8_t>, 5> kKinds{
      {{"HtoD", 1}, {"DtoH", 2}, {"DtoD", 8}, {"HtoH", 9}, {"PtoP", 10}}};
  for (const auto& [text, kind] : kKinds)
    if (name.find(text) != std::string_view::npos) return kind;
  return 0;
}

std::uint8_t sync_type_of(std::string_view name) {
  if (name.find("Wait Event") != std::string_view::npos) return 2;
  if (name.starts_with("Event")) return 1;
  if (name.starts_with("Stream")) return 3;
  return name.starts_with("Context") ? 4 : 0;
}

std::string short_name_of(const std::string& demangled) {
  std::string_view name = demangled;
  if (name.starts_with("void ")) name.remove_prefix(5);
  name = name.substr(0, name.find_first_of("<("));
  const std::size_t scope = name.rfind("::");
  if (scope != std::string_view::npos) name.remove_prefix(scope + 2);
  return std::string(name.empty() ? std::string_view(demangled) : name);
}

// Turns events into rows.
class RowMaker {
public:
  explicit RowMaker(ImportedRows& out) : out_(out) {}

  void take(ChromeEvent& event) {
    if (event.phase == "M" || event.phase == "s" || event.phase == "t" || event.phase == "f")
      return;
    if (event.start == kUnknown) return leave_out();
    if (event.phase == "B") return begin(event);
    if (event.phase == "E") return end(event);
    if (event.phase == "i" || event.phase == "I" || event.phase == "R") {
      if (event.pid == kUnknown) return; // the profiler's own: "Record Window End" of "Traces"
      return add_range(event, 34, 0);
    }
    if (event.phase != "X" || event.length == kUnknown) return leave_out();
    slice(event);
  }

  bool is_kineto() const { return kineto_; }

private:
  void leave_out() { ++out_.left_out; }

  NameId intern(const std::string& text) {
    const auto [found, is_new] = ids_.try_emplace(text, static_cast<NameId>(out_.names.size()));
    if (is_new) out_.names.push_back(text);
    return text.empty() ? 0 : found->second;
  }

  // Of text that is no number a number of its own, above every pid and tid of Linux.
  std::int64_t number_of(std::int64_t number, const std::string& text) {
    if (number != kUnknown) return number;
    const auto next = static_cast<std::int64_t>(others_.size());
    return others_.try_emplace(text, kOtherIds + next).first->second;
  }
  std::int64_t thread_of(const ChromeEvent& event) {
    const std::int64_t pid = number_of(event.pid, event.pid_text) & 0xFFFFFF,
                       tid = number_of(event.tid, event.tid_text) & 0xFFFFFF;
    return global_tid(pid, tid);
  }

  void slice(const ChromeEvent& event) {
    const std::string category = lower_case(event.category);
    if (category == "kernel") return add_kernel(event);
    if (category == "gpu_memcpy" || category == "memcpy") return add_copy(event);
    if (category == "gpu_memset" || category == "memset") return add_set(event);
    if (category == "cuda_runtime" || category == "runtime") return add_call(event, 0);
    if (category == "cuda_driver") return add_call(event, 1);
    if (category == "cpu_op" || category == "operator") {
      if (is_annotation(event.name)) add_range(event, 59, event.start + event.length);
      return add_operator(event);
    }
    if (category == "cuda_sync") return add_sync(event);
    if (category == "overhead") return add_overhead(event);
    // Shadows of the host's annotations on a stream, and the profiler's own frame.
    if (category == "gpu_user_annotation" || category == "trace") return;
    if (category == "user_annotation") kineto_ = true;
    add_range(event, 59, event.start + event.length);
  }

  template <class Row> Row on_device(const ChromeEvent& event) {
    kineto_ = true;
    Row row;
    row.start = event.start;
    row.end = event.start + event.length;
    row.device =
        limited<std::uint32_t>(event.number("device", std::max<std::int64_t>(event.pid, 0)));
    row.context = limited<std::uint32_t>(event.number("context"));
    row.stream =
        limited<std::uint32_t>(event.number("stream", std::max<std::int64_t>(event.tid, 0)));
    row.correlation = limited<std::uint32_t>(event.number("correlation"));
    return row;
  }

  void add_kernel(const ChromeEvent& event) {
    KernelRow row = on_device<KernelRow>(event);
    row.demangled = row.mangled = intern(event.name);
    row.short_name = intern(short_name_of(event.name));
    row.registers_per_thread = limited<std::uint32_t>(event.number("registers per thread"));
    row.dynamic_shared_bytes = limited<std::int32_t>(event.number("shared memory"));
    row.grid = triple(event, "grid");
    row.block = triple(event, "block");
    row.graph_node = limited<std::uint64_t>(event.number("graph node id"));
    row.graph = limited<std::uint32_t>(event.number("graph id"));
    out_.rows.kernels.push_back(row);
  }
  static std::array<std::int32_t, 3> triple(const ChromeEvent& event, const char* key) {
    const auto found = event.triples.find(key);
    if (found == event.triples.end()) return {};
    const auto& [x, y, z] = found->second;
    return {limited<std::int32_t>(x), limited<std::int32_t>(y), limited<std::int32_t>(z)};
  }

  void add_copy(const ChromeEvent& event) {
    CopyRow row = on_device<CopyRow>(event);
    row.bytes = limited<std::uint64_t>(event.number("bytes"));
    row.copy_kind = copy_kind_of(event.name);
    out_.rows.copies.push_back(row);
  }
  void add_set(const ChromeEvent& event) {
    SetRow row = on_device<SetRow>(event);
    row.bytes = limited<std::uint64_t>(event.number("bytes"));
    out_.rows.sets.push_back(row);
  }
  void add_sync(const ChromeEvent& event) {
    SyncRow row = on_device<SyncRow>(event);
    row.stream = limited<std::uint32_t>(event.number("wait_on_stream", row.stream));
    row.sync_type = sync_type_of(event.name);
    out_.rows.syncs.push_back(row);
  }

  void add_call(const ChromeEvent& event, std::uint8_t event_class) {
    kineto_ = true;
    out_.rows.api.push_back({event.start,
                             event.start + event.length,
                             event_class,
                             thread_of(event),
                             limited<std::uint32_t>(event.number("correlation")),
                             intern(event.name)});
  }
  void add_operator(const ChromeEvent& event) {
    kineto_ = true;
    OperatorRow row;
    row.start = event.start;
    row.end = event.start + event.length;
    row.global_tid = thread_of(event);
    row.name = intern(event.name);
    row.sequence = event.number("Sequence number", -1);
    row.forward_thread = event.number("Fwd thread id");
    row.backward = event.name.starts_with("autograd::engine::") || row.forward_thread > 0;
    out_.rows.operators.push_back(row);
  }
  void add_overhead(const ChromeEvent& event) {
    OverheadRow row;
    row.start = event.start;
    row.end = event.start + event.length;
    row.global_tid = thread_of(event);
    row.name = intern(event.name);
    out_.rows.overhead.push_back(row);
  }

  // Annotations have no domain; other programs' slices have that of their category.
  void add_range(const ChromeEvent& event, std::uint8_t type, std::int64_t end) {
    const bool annotation =
        lower_case(event.category) == "user_annotation" || is_annotation(event.name);
    out_.rows.ranges.push_back({event.start,
                                end,
                                type,
                                thread_of(event),
                                intern(event.name),
                                annotation ? 0 : intern(event.category)});
  }

  // What PyTorch before 1.10 and some backends record as operators.
  static bool is_annotation(std::string_view name) {
    return name.starts_with("ProfilerStep#") || name.starts_with("Optimizer.") ||
           name.starts_with("enumerate(DataLoader)");
  }

  void begin(ChromeEvent& event) { open_[thread_of(event)].push_back(std::move(event)); }
  void end(const ChromeEvent& event) {
    std::vector<ChromeEvent>& stack = open_[thread_of(event)];
    if (stack.empty() || event.start < stack.back().start) return leave_out();
    ChromeEvent whole = std::move(stack.back());
    stack.pop_back();
    whole.length = event.start - whole.start;
    slice(whole);
  }

  static constexpr std::int64_t kOtherIds = 0x400000; // Linux's largest pid is below
  ImportedRows& out_;
  std::unordered_map<std::string, NameId> ids_;
  std::map<std::string, std::int64_t> others_;
  std::unordered_map<std::int64_t, std::vector<ChromeEvent>> open_; // of phase B
  bool kineto_ = false;
};

// Which part of the document is being read.
enum class Part { Top, Events, Event, Args, Triple, Devices, Device, Other };

class ChromeSax : public nlohmann::json_sax<nlohmann::json> {
public:
  explicit ChromeSax(ImportedRows& out) : out_(out), maker_(out) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override {
    integer(value);
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    integer(static_cast<std::int64_t>(
        std::min<number_unsigned_t>(value, std::numeric_limits<std::int64_t>::max())));
    return true;
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (part() == Part::Event) time(text);
    if (part() == Part::Args && std::abs(value) < kMostTime)
      argument(static_cast<std::int64_t>(value));
    return true;
  }
  bool string(string_t& value) override {
    if (part() == Part::Event) text(value);
    if (part() == Part::Args)
      if (const std::int64_t number = whole_number(value); number != kUnknown) argument(number);
    if (part() == Part::Device && key_ == "name") devices_.push_back(value);
    return true;
  }
  bool binary(binary_t&) override { return true; }

  bool start_object(std::size_t) override {
    if (parts_.empty()) return push(Part::Top);
    switch (part()) {
    case Part::Events:
      event_.clear();
      return push(Part::Event);
    case Part::Event:
      return push(key_ == "args" ? Part::Args : Part::Other);
    case Part::Devices:
      return push(Part::Device);
    default:
      return push(Part::Other);
    }
  }
  bool end_object() override {
    if (part() == Part::Event) maker_.take(event_);
    return pop();
  }
  bool start_array(std::size_t) override {
    if (parts_.empty()) return begin_events();
    switch (part()) {
    case Part::Top:
      if (key_ == "traceEvents") return begin_events();
      return push(key_ == "deviceProperties" ? Part::Devices : Part::Other);
    case Part::Args:
      at_ = 0;
      return push(Part::Triple);
    default:
      return push(Part::Other);
    }
  }
  bool end_array() override { return pop(); }
  bool key(string_t& value) override {
    key_ = value;
    return true;
  }
  bool
  parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    error_ = error.what();
    return false;
  }

  const std::string& error() const { return error_; }
  bool has_events() const { return has_events_; }
  void finish() {
    out_.source = maker_.is_kineto() ? "Kineto JSON" : "Chrome JSON";
    if (!devices_.empty()) out_.info.emplace_back("gpu", devices_.front());
  }

private:
  Part part() const { return parts_.empty() ? Part::Other : parts_.back(); }
  bool push(Part part) {
    parts_.push_back(part);
    return true;
  }
  bool pop() {
    parts_.pop_back();
    return true;
  }
  bool begin_events() {
    has_events_ = true;
    return push(Part::Events);
  }

  void integer(std::int64_t value) {
    switch (part()) {
    case Part::Top:
      if (key_ == "baseTimeNanoseconds") out_.base_utc_ns = value;
      break;
    case Part::Event:
      if (key_ == "pid") event_.pid = value;
      if (key_ == "tid") event_.tid = value;
      time(std::to_string(value));
      break;
    case Part::Args:
      argument(value);
      break;
    case Part::Triple:
      if (at_ < 3 && (key_ == "grid" || key_ == "block")) event_.triples[key_][at_++] = value;
      break;
    default:
      break;
    }
  }
  void argument(std::int64_t value) {
    if (std::ranges::find(kWanted, key_) != kWanted.end()) event_.numbers[key_] = value;
  }
  void time(std::string_view text) {
    if (key_ == "ts") event_.start = nanoseconds_of(text).value_or(kUnknown);
    if (key_ == "dur") event_.length = std::max<std::int64_t>(nanoseconds_of(text).value_or(0), 0);
  }
  void text(const std::string& value) {
    if (key_ == "ph") event_.phase = value;
    if (key_ == "cat") event_.category = value;
    if (key_ == "name") event_.name = value;
    if (key_ == "pid") event_.pid = whole_number(event_.pid_text = value);
    if (key_ == "tid") event_.tid = whole_number(event_.tid_text = value);
    time(value);
  }

  ImportedRows& out_;
  RowMaker maker_;
  std::vector<Part> parts_;
  std::string key_, error_;
  std::vector<std::string> devices_;
  ChromeEvent event_;
  std::size_t at_ = 0; // in a triple
  bool has_events_ = false;
};

} // namespace

std::optional<std::int64_t> nanoseconds_of(std::string_view microseconds) {
  if (microseconds.find_first_of("eE") != std::string_view::npos) {
    double value = 0;
    const char* const last = microseconds.data() + microseconds.size();
    const auto [end, error] = std::from_chars(microseconds.data(), last, value);
    if (error != std::errc() || end != last || !(std::abs(value) * 1000 < kMostTime))
      return std::nullopt;
    return std::llround(value * 1000);
  }
  const bool negative = microseconds.starts_with('-');
  if (negative) microseconds.remove_prefix(1);
  const std::size_t point = std::min(microseconds.find('.'), microseconds.size());
  std::string digits(microseconds.substr(0, point));
  const std::string_view fraction = microseconds.substr(std::min(point + 1, microseconds.size()));
  if (digits.empty() || digits.front() == '-') return std::nullopt;
  for (std::size_t i = 0; i < 3; ++i) digits += i < fraction.size() ? fraction[i] : '0';
  const std::int64_t value = whole_number(digits);
  if (value == kUnknown || static_cast<double>(value) > kMostTime) return std::nullopt;
  const bool up = fraction.size() > 3 && fraction[3] >= '5';
  return (negative ? -1 : 1) * (value + (up ? 1 : 0));
}

Result<ImportedRows> read_chrome_trace(const std::string& path) {
  GzipBytes bytes(path);
  if (!bytes.is_open())
    return fail("{}: cannot be opened: {}", printable(path), std::strerror(errno));
  ImportedRows rows;
  ChromeSax sax(rows);
  const bool parsed = nlohmann::json::sax_parse(ByteIterator(bytes), ByteIterator(), &sax);
  if (bytes.is_damaged())
    return fail("{}: the gzip data are cut off or damaged; fetch the file again", printable(path));
  if (!parsed)
    return fail("{}: no whole JSON document, so perhaps cut off: {}; record or fetch it again",
                printable(path),
                printable(sax.error()));
  if (!sax.has_events())
    return fail("{}: JSON without `traceEvents`: no trace of torch.profiler, Kineto or another "
                "program in the Chrome format",
                printable(path));
  sax.finish();
  return rows;
}

} // namespace assay
