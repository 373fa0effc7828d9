// FLAGS_minloglevel: LibTorch's libc10 and Debian's libsentencepiece both define a variable of this
// name, one an int, the other an object of 32 bytes. The dynamic linker gives both libraries the
// first that it finds. That was libc10's, and the constructor of the other's object overwrote what
// follows the int there, among it the switch that makes a failed allocation abort the program.
//
// A definition in the program is found before both; this one has room for the object. The int lies
// over its pointer to virtual functions, which nothing calls.
#include <cstring>

// NOLINTBEGIN(readability-identifier-naming): the name of the libraries
extern "C" {
extern char FLAGS_minloglevel[64];
alignas(16) __attribute__((visibility("default"))) char FLAGS_minloglevel[64] = {};
}
// NOLINTEND(readability-identifier-naming)

namespace assay {

namespace {

// Static objects of libraries are made before those of the program: the object is there by now, and
// the int gets back what LibTorch begins with.
[[maybe_unused]] const bool kLevelIsSet = [] {
  constexpr int kInfo = 0;
  std::memcpy(FLAGS_minloglevel, &kInfo, sizeof kInfo);
  return true;
}();

} // namespace

} // namespace assay
