// Any bytes as the header of a safetensors file.
#include "model/training/safetensors.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  const std::string path = fuzz::folder() / "weights.safetensors";
  fuzz::write_file(path, {reinterpret_cast<const char*>(data), size});
  fuzz::try_to([&] { return read_safetensors_header(path); });
  return 0;
}
