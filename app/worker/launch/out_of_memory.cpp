#include "app/worker/launch/out_of_memory.h"

#include <string_view>

namespace assay::worker {

// LibTorch has a class of its own for a GPU's memory alone.
std::string out_of_memory_text(const c10::Error& error) {
  constexpr std::string_view kHost = "can't allocate memory";
  std::string text = error.what_without_backtrace();
  text = text.substr(0, text.find('\n'));
  if (const std::size_t at = text.find(kHost); at != std::string::npos) return text.substr(at);
  return text.find("out of memory") == std::string::npos ? "" : text;
}

} // namespace assay::worker
