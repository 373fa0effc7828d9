#include "model/data/parquet/parquet_texts.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <limits>
#include <system_error>

#include "core/result.h"
#include "core/text.h"
#include "model/data/parquet/plugin.h"

namespace assay {

namespace {

constexpr std::size_t kHeld = 1 << 20;

[[noreturn]] void spool_failed(const std::string& directory, int error) {
  bad_input("{}: cannot hold the texts of Parquet files: {}; make room, or set TMPDIR to another "
            "directory",
            printable(directory),
            std::generic_category().message(error));
}

using Texts = decltype(&assay_parquet_texts);

Texts load_reader(const std::string& path) {
  static const Texts function = [&] {
    const std::string module =
        (std::filesystem::read_symlink("/proc/self/exe").parent_path() / ASSAY_PARQUET_MODULE)
            .string();
    void* const library = ::dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const found = library == nullptr ? nullptr : ::dlsym(library, ASSAY_PARQUET_FUNCTION);
    if (found == nullptr)
      bad_input("{}: reading Parquet needs {} ({}); build it with `make build`",
                printable(path),
                printable(module),
                printable(::dlerror()));
    return reinterpret_cast<Texts>(found);
  }();
  return function;
}

struct Decoding {
  TextSpool* spool;
  std::vector<ParquetText> texts = {};
  std::uint64_t rows = 0;
  std::exception_ptr failure = {};
};

// Called through C: nothing may be thrown.
bool take_text(void* to, const char* text, std::uint64_t size) {
  auto& decoding = *static_cast<Decoding*>(to);
  try {
    ++decoding.rows;
    if (size == 0) return true;
    if (decoding.rows > std::numeric_limits<std::uint32_t>::max())
      bad_input("a Parquet file has more than {} rows; split it",
                std::numeric_limits<std::uint32_t>::max());
    const std::uint64_t offset = decoding.spool->append({text, size});
    decoding.texts.push_back(
        {offset, static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(decoding.rows)});
    return true;
  } catch (...) {
    decoding.failure = std::current_exception();
    return false;
  }
}

} // namespace

TextSpool::TextSpool() : directory_(std::filesystem::temp_directory_path().string()) {
  std::string name = directory_ + "/assay-text-XXXXXX";
  descriptor_ = ::mkstemp(name.data());
  if (descriptor_ < 0) spool_failed(directory_, errno);
  ::unlink(name.c_str());
}

TextSpool::~TextSpool() {
  ::close(descriptor_);
}

std::uint64_t TextSpool::append(std::string_view text) {
  const std::uint64_t offset = written_ + held_.size();
  held_ += text;
  if (held_.size() >= kHeld) flush();
  return offset;
}

void TextSpool::flush() {
  for (std::size_t done = 0; done < held_.size();) {
    const ssize_t wrote = ::pwrite(
        descriptor_, held_.data() + done, held_.size() - done, static_cast<off_t>(written_ + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) spool_failed(directory_, errno);
    done += static_cast<std::size_t>(wrote);
  }
  written_ += held_.size();
  held_.clear();
}

std::string TextSpool::read(std::uint64_t offset, std::size_t size) const {
  std::string text(size, '\0');
  for (std::size_t done = 0; done < size;) {
    const ssize_t got =
        ::pread(descriptor_, text.data() + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) spool_failed(directory_, got < 0 ? errno : EIO);
    done += static_cast<std::size_t>(got);
  }
  return text;
}

std::vector<ParquetText> decode_parquet(const std::string& path, TextSpool& spool) {
  Decoding decoding{&spool};
  std::array<char, 400> error{};
  const Texts reader = load_reader(path);
  const int code = reader(path.c_str(), take_text, &decoding, error.data(), error.size());
  if (decoding.failure) std::rethrow_exception(decoding.failure);
  if (code == kParquetNoColumn)
    bad_input("{}: has no column `text` of strings; its columns: {}",
              printable(path),
              printable(error.data()));
  if (code != 0)
    bad_input("{}: cannot be read as Parquet: {}", printable(path), printable(error.data()));
  spool.flush();
  return std::move(decoding.texts);
}

} // namespace assay
