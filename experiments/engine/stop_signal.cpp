#include "experiments/engine/stop_signal.h"

namespace assay {

namespace {

volatile std::sig_atomic_t signals = 0;

void on_signal(int) {
  signals = signals + 1;
}

} // namespace

StopSignal::StopSignal() {
  signals = 0;
  struct sigaction action {};
  action.sa_handler = on_signal; // without SA_RESTART: poll() returns and the loop looks
  sigaction(SIGINT, &action, &previous_int_);
  sigaction(SIGTERM, &action, &previous_term_);
}

StopSignal::~StopSignal() {
  sigaction(SIGINT, &previous_int_, nullptr);
  sigaction(SIGTERM, &previous_term_, nullptr);
}

int StopSignal::count() {
  return signals;
}

} // namespace assay
