#include "experiments/engine/stop_signal.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace assay {

namespace {

volatile std::sig_atomic_t signals = 0;
const char* volatile words = nullptr;

void on_signal(int) {
  signals = signals + 1;
  const char* const text = words;
  if (signals != 1 || text == nullptr) return;
  const int error = errno;
  (void)!::write(STDERR_FILENO, text, std::strlen(text));
  errno = error;
}

} // namespace

StopSignal::StopSignal() {
  signals = 0;
  words = nullptr;
  struct sigaction action {};
  action.sa_handler = on_signal; // without SA_RESTART: poll() returns and the loop looks
  sigaction(SIGINT, &action, &previous_int_);
  sigaction(SIGTERM, &action, &previous_term_);
}

StopSignal::~StopSignal() {
  words = nullptr;
  sigaction(SIGINT, &previous_int_, nullptr);
  sigaction(SIGTERM, &previous_term_, nullptr);
}

int StopSignal::count() {
  return signals;
}

void StopSignal::acknowledge_with(const char* text) {
  words = text;
}

} // namespace assay
