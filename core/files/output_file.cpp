#include "core/files/output_file.h"

#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/files/output_target.h"
#include "core/files/temporary_file.h"
#include "core/result.h"

namespace assay {

namespace {

constexpr std::size_t kQueue = 8;
constexpr int kGzip = 16 + MAX_WBITS; // zlib: write a gzip header and trailer

// Bytes into the file ("": standard output); remembers the first error.
class Raw {
public:
  explicit Raw(const std::string& target) {
    if (!target.empty()) file_.emplace(target);
    if (file_ && file_->error() != 0) {
      error_ = file_->error();
      return;
    }
    // A descriptor of its own, since it is closed like any other file.
    const int copy = ::dup(file_ ? file_->descriptor() : STDOUT_FILENO);
    stream_ = copy < 0 ? nullptr : ::fdopen(copy, "wb");
    if (stream_ == nullptr) error_ = errno;
  }
  ~Raw() {
    if (stream_ != nullptr) std::fclose(stream_);
  }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  void write(const void* data, std::size_t size) {
    if (error_ == 0 && std::fwrite(data, 1, size, stream_) != size)
      error_ = errno != 0 ? errno : EIO;
  }
  // The file takes its target's place, if all of it could be written.
  void place() {
    if (stream_ != nullptr && std::fclose(std::exchange(stream_, nullptr)) != 0 && error_ == 0)
      error_ = errno;
    if (error_ == 0 && file_) error_ = file_->place(false);
  }
  int error() const { return error_; }

private:
  std::optional<TemporaryFile> file_; // absent: standard output
  int error_ = 0;
  std::FILE* stream_ = nullptr;
};

class Deflater {
public:
  explicit Deflater(Raw& raw) : raw_(raw), out_(1 << 18) {
    if (deflateInit2(&stream_, 1, Z_DEFLATED, kGzip, 9, Z_DEFAULT_STRATEGY) != Z_OK)
      internal_error("zlib refused to start: not enough memory?");
  }
  ~Deflater() { deflateEnd(&stream_); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  void add(const std::string& chunk, int flush) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(chunk.data()));
    stream_.avail_in = static_cast<uInt>(chunk.size());
    do {
      stream_.next_out = out_.data();
      stream_.avail_out = static_cast<uInt>(out_.size());
      deflate(&stream_, flush);
      raw_.write(out_.data(), out_.size() - stream_.avail_out);
    } while (stream_.avail_out == 0);
  }

private:
  Raw& raw_;
  z_stream stream_{};
  std::vector<Bytef> out_;
};

} // namespace

struct OutputFile::Impl {
  explicit Impl(std::string name)
      : path(std::move(name)), raw(is_standard_output(path) ? "" : output_target(path)) {}

  std::string path; // as a person named it
  Raw raw;
  std::int64_t bytes = 0;

  // The compressing thread, for .gz only; everything below is guarded by `mutex`.
  std::optional<Deflater> deflater; // the thread's own
  std::thread thread;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> queue;
  bool closing = false;
  int error = 0;

  void compress() {
    for (;;) {
      std::string chunk;
      {
        std::unique_lock lock(mutex);
        error = raw.error();
        changed.wait(lock, [&] { return closing || !queue.empty(); });
        if (queue.empty()) break;
        chunk = std::move(queue.front());
        queue.pop_front();
      }
      changed.notify_all();
      deflater->add(chunk, Z_NO_FLUSH);
    }
    deflater->add("", Z_FINISH);
  }

  void join() {
    if (!thread.joinable()) return;
    {
      const std::lock_guard lock(mutex);
      closing = true;
    }
    changed.notify_all();
    thread.join();
  }

  void check(int code) const {
    if (code != 0)
      bad_input("cannot write {}: {}; {}", path, std::strerror(code), write_remedy(code));
  }
};

OutputFile::OutputFile(std::string path, bool always_compressed)
    : impl_(std::make_unique<Impl>(std::move(path))) {
  impl_->check(impl_->raw.error());
  const std::string_view name = impl_->path;
  if (!always_compressed && !name.ends_with(".gz") && !name.ends_with(".tgz")) return;
  impl_->deflater.emplace(impl_->raw);
  impl_->thread = std::thread([this] { impl_->compress(); });
}

OutputFile::~OutputFile() {
  impl_->join();
}

void OutputFile::write(std::string chunk) {
  Impl& impl = *impl_;
  impl.bytes += static_cast<std::int64_t>(chunk.size());
  if (!impl.deflater) {
    impl.raw.write(chunk.data(), chunk.size());
    impl.check(impl.raw.error());
    return;
  }
  int error = 0;
  {
    std::unique_lock lock(impl.mutex);
    impl.changed.wait(lock, [&] { return impl.queue.size() < kQueue; });
    impl.queue.push_back(std::move(chunk));
    error = impl.error;
  }
  impl.changed.notify_all();
  impl.check(error);
}

void OutputFile::finish() {
  Impl& impl = *impl_;
  impl.join();
  impl.raw.place();
  impl.check(impl.raw.error());
}

std::int64_t OutputFile::bytes() const {
  return impl_->bytes;
}

} // namespace assay
