// Linked into programs with a window under sanitizers alone: libraries that the process closes
// stay. LeakSanitizer would call memory leaked that only a closed OpenGL driver's own variables
// point to, and could not name it.
#include <dlfcn.h>

extern "C" int dlclose(void* /*handle*/) noexcept {
  return 0;
}
