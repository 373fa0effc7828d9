#include "core/fallback.h"

#include <mutex>

#include "core/span.h"

namespace assay {

namespace {

struct Noted {
  std::mutex mutex;
  std::map<std::string, std::int64_t> by_name;
};

Noted& noted() {
  static Noted all;
  return all;
}

} // namespace

void note_fallback(const char* name) {
  {
    const std::lock_guard lock(noted().mutex);
    ++noted().by_name[name];
  }
  count(name);
}

std::map<std::string, std::int64_t> fallbacks() {
  const std::lock_guard lock(noted().mutex);
  return noted().by_name;
}

} // namespace assay
