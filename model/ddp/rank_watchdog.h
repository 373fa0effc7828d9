// RankWatchdog: notices, outside the collectives, that a rank died, hangs, failed or issues another
// collective than the rest, names it, and ends this process. It talks to the other ranks through
// the store alone, on a connection and threads of its own, so that it works while the main thread
// is stuck.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "model/ddp/rank_table.h"

namespace assay {

// Prints "error: <finding>" and exits with 1, without running destructors: the main thread may hang
// in a collective for ever.
[[noreturn]] void end_process(const Finding& finding);

struct WatchOptions {
  std::chrono::milliseconds beat{500};
  WatchLimits limits = {};
  std::chrono::milliseconds first_hung{60000}; // limit of a phase until it was left three times
  bool holds_store = false; // the store's server runs in this process: it outlives the others
  std::string store_owner = "rank 0, which holds the store,";
  std::function<void(const Finding&)> on_finding = end_process; // once, in a thread of the watch
};

class RankWatchdog {
public:
  // Needs a store with queues (TCPStore). Throws c10::Error when it cannot be reached.
  RankWatchdog(const c10::intrusive_ptr<c10d::Store>& store,
               int rank,
               int size,
               WatchOptions options = {});
  // Announces that this rank ends in order; the store's owner waits for every announcement.
  ~RankWatchdog();
  RankWatchdog(const RankWatchdog&) = delete;
  RankWatchdog& operator=(const RankWatchdog&) = delete;

  // A collective is about to be issued. Any thread; never waits for the store. Counts as progress.
  void issue(std::string fingerprint);

  // The main thread works on something. A limited phase may hang: its limit follows from how long
  // phases of that name took. Phases nest; progress counts for the innermost.
  class Phase {
  public:
    Phase(RankWatchdog& watch, std::string name, bool limited);
    ~Phase();
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;

  private:
    RankWatchdog& watch_;
    std::string name_, outer_;
    bool outer_limited_;
    RankTable::Clock::time_point begin_;
  };

  // Tells the other ranks that this one ends by an error, so that they end too.
  void fail(const std::string& why, int retired = -1, const std::string& cause = {});
  // For a main thread whose collective failed: the cause is often another rank's. Returns when
  // nothing was found in that time; a finding goes to on_finding as ever.
  std::optional<Finding> wait_for_finding(std::chrono::milliseconds limit);

private:
  void exchange_loop();
  void exchange(std::unique_lock<std::mutex>& lock);
  void judge_loop();
  std::optional<Finding> judge(RankTable::Clock::time_point now) const;
  RankStatus take_status(RankTable::Clock::time_point now);
  std::chrono::milliseconds limit_of_phase() const;

  const int rank_, size_;
  const WatchOptions options_;
  c10::intrusive_ptr<c10d::Store> store_; // of the exchanging thread

  std::mutex mutex_; // of all that follows
  std::condition_variable changed_;
  RankTable board_;
  RankTable::Clock::time_point exchanged_at_, progress_at_;
  std::string phase_;
  bool limited_ = false;
  std::map<std::string, std::deque<double>> durations_; // ms, the newest 64 of each limited phase
  std::vector<std::string> unpublished_;
  std::string failed_, store_error_;
  int retired_ = -1;
  std::string cause_;
  std::optional<Finding> finding_;
  bool leaving_ = false, exchanging_ = true;

  std::thread exchanger_, judge_;
};

} // namespace assay
