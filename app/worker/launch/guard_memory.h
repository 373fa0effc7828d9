// Running out of memory becomes the retirement of the variant that did.
#pragma once

#include <c10/util/Exception.h>

#include <cstddef>
#include <new>
#include <string>

#include "app/worker/launch/launch.h"

namespace assay::worker {

// Runs `body`; running out of memory becomes the variant's retirement.
template <class Body> auto guard_memory(std::size_t variant, const std::string& name, Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    throw Retired{variant, kCauseMemory, "out of memory in variant '" + name + "'"};
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (text.find("can't allocate memory") == std::string::npos &&
        text.find("out of memory") == std::string::npos)
      throw;
    throw Retired{variant,
                  kCauseMemory,
                  "out of memory in variant '" + name + "': " + text.substr(0, text.find('\n'))};
  }
}

} // namespace assay::worker
