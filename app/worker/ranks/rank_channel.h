// RankChannel: what one process of a launch of several ranks shares with the others: the watch, the
// collectives and, over the same store, rank 0's requests and the others' answers.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "model/ddp/process_group.h"
#include "model/ddp/rank_watchdog.h"

namespace assay::worker {

class RankChannel {
public:
  // `store` is this launch's own part of the store.
  RankChannel(c10::intrusive_ptr<c10d::Store> store, RankPlace place, WatchOptions options = {});

  const RankPlace& place() const { return place_; }
  RankWatchdog& watch() { return watch_; }

  // Once, after the device was chosen; returns when every rank has come.
  void open_group(Device device);
  const std::shared_ptr<ProcessGroup>& group() const { return group_; }
  // At the end in order, once nothing uses the group; every rank.
  void close_group() { group_->close(); }

  // Rank 0: hands a request to the others; their answers merged with its own.
  void post(const nlohmann::json& request);
  nlohmann::json merge_with_others(nlohmann::json own);
  // The others: wait for the next request; answer it.
  nlohmann::json next_request();
  void answer(const nlohmann::json& event);

  // This rank ends by an error. Where another rank's end is the cause, the watch names that rank
  // and this process ends in here.
  void
  fail(const std::string& why, bool maybe_another, int retired = -1, const std::string& cause = {});

private:
  nlohmann::json pop(const std::string& queue);
  void push(const std::string& queue, const nlohmann::json& message);

  RankPlace place_;
  c10::intrusive_ptr<c10d::Store> store_, messages_; // the second is used by the main thread alone
  RankWatchdog watch_;
  std::shared_ptr<ProcessGroup> group_;
};

} // namespace assay::worker
