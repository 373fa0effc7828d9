// Any text as a file of claims.
#include "experiments/plan/claims/claims_file.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  fuzz::write_file(fuzz::folder() / "claims.toml", {reinterpret_cast<const char*>(data), size});
  fuzz::try_to([] { return load_claims(fuzz::folder().string()); });
  return 0;
}
