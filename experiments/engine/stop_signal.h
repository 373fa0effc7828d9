// SIGINT and SIGTERM while a plan runs: the first asks to stop after the round, the second to stop
// now. In any phase but a round the first ends the launch at once. Restores the previous handlers
// at the end of its life; one at a time.
#pragma once

#include <csignal>

namespace assay {

class StopSignal {
public:
  // `acknowledgement` (may be null; kept for the object's life) is printed on stderr by the first
  // one.
  explicit StopSignal(const char* acknowledgement = nullptr);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  static int count(); // signals since construction

private:
  struct sigaction previous_int_ {};
  struct sigaction previous_term_ {};
};

} // namespace assay
