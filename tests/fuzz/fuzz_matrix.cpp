// Any text as a matrix file.
#include "experiments/plan/matrix/matrix.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::try_to([&] { return parse_matrix(text, "fuzz.toml"); });
  return 0;
}
