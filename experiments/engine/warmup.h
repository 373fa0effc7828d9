// When a launch has warmed up: the robust mean of ln(step time) changes by less than
// max(tolerance, 2 standard errors) between two consecutive windows of 5 rounds. A cap ends the
// wait; the launch is then marked as not steady.
#pragma once

#include <string>
#include <vector>

#include "core/ledger/ledger.h"

namespace assay {

class WarmUp {
public:
  enum class State { Warming, Steady, Capped };

  explicit WarmUp(bool gpu) : tolerance_(gpu ? 0.005 : 0.02), cap_(gpu ? 60 : 15) {}

  // Adds one round; once it has ended the state stays.
  State add(const std::vector<VisitRow>& round);
  State state() const { return state_; }
  int cap() const { return cap_; }
  std::string detail() const; // for the ledger's warmup_end event

private:
  double tolerance_;
  int cap_; // rounds
  State state_ = State::Warming;
  std::vector<double> log_times_; // mean over the variants, a round
  double change_ = 0, allowed_ = 0;
};

} // namespace assay
