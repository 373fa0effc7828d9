// RankTable: the last report of every rank, and the judgement over it. It has no thread, no
// store and no clock of its own (times are given), so that its rules can be tested alone.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace assay {

// What a rank publishes with every heartbeat.
struct RankStatus {
  std::string phase = {};               // of the main thread; empty: it waits for its next request
  std::int64_t idle_ms = 0;             // since the main thread's last progress
  std::int64_t limit_ms = 0;            // longer without progress is a hang; 0: no limit
  std::vector<std::string> issued = {}; // fingerprints of the collectives since the status before
  bool left = false;                    // ended in order
  std::string failed = {};              // why it ends, if by an error of its own
  int retired = -1;                     // ... which retires this variant of the launch
  std::string cause = {};               // ... for this cause (EventRow::cause)

  std::string text() const;                             // JSON
  static RankStatus from_text(const std::string& text); // throws nlohmann's exception
};

// What is wrong with the group, naming the rank.
struct Finding {
  std::string text;
  int retired = -1; // the variant that has to leave the launch, if that is all
  std::string cause = {};
};

struct WatchLimits {
  std::chrono::milliseconds dead{3000};   // without a heartbeat
  std::chrono::milliseconds start{60000}; // until the first heartbeat
  std::chrono::milliseconds hung{5000}; // without progress (or 10 medians of the phase, if longer)
};

class RankTable {
public:
  using Clock = std::chrono::steady_clock;

  RankTable(int size, WatchLimits limits, Clock::time_point now);

  void heard(int rank, const RankStatus& status, Clock::time_point now);

  // In this order: a rank failed by itself, ranks issued different collectives, a rank left before
  // a collective that another one waits in, a rank's heartbeat is missing, ranks make no progress.
  // A rank that merely waits for another one is never blamed.
  std::optional<Finding> finding(Clock::time_point now) const;

  bool all_others_left(int rank) const;

private:
  struct Rank {
    RankStatus status;
    Clock::time_point heard_at;
    bool started = false;
    std::int64_t collectives = 0;
  };
  void issue(std::size_t rank, const std::string& fingerprint);
  std::optional<Finding> failed() const;
  std::optional<std::string> early_end() const;
  std::optional<std::string> dead(Clock::time_point now) const;
  std::optional<std::string> hung() const;
  std::string waiting_in(std::size_t rank) const;

  WatchLimits limits_;
  std::vector<Rank> ranks_;
  // Collective number (from 1) -> its fingerprint by rank, until all have issued it; empty: not
  // yet.
  std::map<std::int64_t, std::vector<std::string>> open_;
  std::optional<std::string> mismatch_;
};

} // namespace assay
