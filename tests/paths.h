// Where this build's source tree and helper programs are. The paths are compiled into paths.cpp
// alone, so that the compiler cache can share every other test object with another clone.
#pragma once

#include <string>

namespace assay::test {

std::string source_dir();    // the repository
std::string fake_worker();   // worker that answers by script (tests/experiments/fake_worker.cpp)
std::string engine_driver(); // engine in a process of its own, to be killed

} // namespace assay::test
