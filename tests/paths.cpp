#include "tests/paths.h"

namespace assay::test {

std::string source_dir() {
  return ASSAY_SOURCE_DIR;
}
std::string fake_worker() {
  return ASSAY_BINARY_DIR "/tests/experiments/fake_worker";
}
std::string engine_driver() {
  return ASSAY_BINARY_DIR "/tests/experiments/engine_driver";
}

} // namespace assay::test
