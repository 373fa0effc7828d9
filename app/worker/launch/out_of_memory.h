// How a failed allocation of LibTorch is known.
#pragma once

#include <c10/util/Exception.h>

#include <string>

namespace assay::worker {

// What LibTorch says in one line where memory ran out; "" of any other error.
std::string out_of_memory_text(const c10::Error& error);

} // namespace assay::worker
