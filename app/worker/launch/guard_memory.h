// Running out of memory becomes the retirement of the variant that did.
#pragma once

#include <c10/util/Exception.h>

#include <cstddef>
#include <new>
#include <string>

#include "app/worker/launch/launch.h"
#include "app/worker/launch/out_of_memory.h"

namespace assay::worker {

// Runs `body`; running out of memory becomes the variant's retirement.
template <class Body> auto guard_memory(std::size_t variant, const std::string& name, Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    throw Retired{variant, kCauseMemory, "out of memory in variant '" + name + "'"};
  } catch (const c10::Error& error) {
    const std::string text = out_of_memory_text(error);
    if (text.empty()) throw;
    throw Retired{variant, kCauseMemory, "out of memory in variant '" + name + "': " + text};
  }
}

} // namespace assay::worker
