// SIGINT and SIGTERM while a plan runs: the first asks to stop after the round, the second to stop
// now. In any phase but a round the first ends the launch at once. Restores the previous handlers
// at the end of its life; one at a time.
#pragma once

#include <csignal>

namespace assay {

class StopSignal {
public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  static int count(); // signals since construction
  // What the first one prints on stderr from here on; null: nothing. The text is kept as a pointer.
  static void acknowledge_with(const char* text);

private:
  struct sigaction previous_int_ {};
  struct sigaction previous_term_ {};
};

} // namespace assay
