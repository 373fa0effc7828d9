#include "core/files/output_file.h"

#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "core/files/output_target.h"
#include "core/result.h"

namespace assay {

namespace {

constexpr std::size_t kQueue = 8;
constexpr int kGzip = 16 + MAX_WBITS; // zlib: write a gzip header and trailer

// Bytes into the file ("": standard output); remembers the first error.
class Raw {
public:
  explicit Raw(const std::string& path) : file_(open(path)) {
    if (file_ == nullptr) error_ = errno;
  }
  ~Raw() {
    if (file_ != nullptr) std::fclose(file_);
  }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  void write(const void* data, std::size_t size) {
    if (error_ == 0 && std::fwrite(data, 1, size, file_) != size) error_ = errno != 0 ? errno : EIO;
  }
  void close() {
    if (file_ == nullptr) return;
    if (std::fclose(file_) != 0 && error_ == 0) error_ = errno;
    file_ = nullptr;
  }
  int error() const { return error_; }

private:
  // Standard output by a descriptor of its own, since it is closed like any other file.
  static std::FILE* open(const std::string& path) {
    if (!path.empty()) return std::fopen(path.c_str(), "wb");
    const int copy = ::dup(STDOUT_FILENO);
    return copy < 0 ? nullptr : ::fdopen(copy, "wb");
  }

  std::FILE* file_;
  int error_ = 0;
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
      : path(std::move(name)), target(is_standard_output(path) ? "" : output_target(path)),
        temporary(target.empty() ? "" : target + ".tmp"), raw(temporary) {}

  std::string path, target, temporary; // path: as a person named it
  Raw raw;
  std::int64_t bytes = 0;
  bool finished = false;

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

OutputFile::OutputFile(std::string path) : impl_(std::make_unique<Impl>(std::move(path))) {
  impl_->check(impl_->raw.error());
  if (!std::string_view(impl_->path).ends_with(".gz")) return;
  impl_->deflater.emplace(impl_->raw);
  impl_->thread = std::thread([this] { impl_->compress(); });
}

OutputFile::~OutputFile() {
  impl_->join();
  impl_->raw.close();
  std::error_code ignored; // the file that could not be written is of no use to anybody
  if (!impl_->finished && !impl_->temporary.empty())
    std::filesystem::remove(impl_->temporary, ignored);
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
  impl.raw.close();
  impl.check(impl.raw.error());
  impl.finished = true;
  if (impl.target.empty()) return;
  std::error_code error;
  std::filesystem::rename(impl.temporary, impl.target, error);
  impl.finished = !error;
  impl.check(error.value());
}

std::int64_t OutputFile::bytes() const {
  return impl_->bytes;
}

} // namespace assay
