#include "model/ddp/rank_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace assay {

namespace {

double seconds(std::int64_t ms) {
  return static_cast<double>(ms) / 1e3;
}

} // namespace

std::string RankStatus::text() const {
  return nlohmann::json{{"phase", phase},
                        {"idle_ms", idle_ms},
                        {"limit_ms", limit_ms},
                        {"issued", issued},
                        {"left", left},
                        {"failed", failed},
                        {"retired", retired},
                        {"cause", cause}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RankStatus RankStatus::from_text(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  RankStatus status;
  json.at("phase").get_to(status.phase);
  json.at("idle_ms").get_to(status.idle_ms);
  json.at("limit_ms").get_to(status.limit_ms);
  json.at("issued").get_to(status.issued);
  json.at("left").get_to(status.left);
  json.at("failed").get_to(status.failed);
  json.at("retired").get_to(status.retired);
  json.at("cause").get_to(status.cause);
  return status;
}

RankTable::RankTable(int size, WatchLimits limits, Clock::time_point now)
    : limits_(limits), ranks_(static_cast<std::size_t>(size), Rank{{}, now, false, 0}) {}

void RankTable::heard(int rank, const RankStatus& status, Clock::time_point now) {
  const auto index = static_cast<std::size_t>(rank);
  for (const std::string& fingerprint : status.issued) issue(index, fingerprint);
  Rank& entry = ranks_[index];
  entry.status = status;
  entry.status.issued.clear();
  entry.heard_at = now;
  entry.started = true;
}

void RankTable::issue(std::size_t rank, const std::string& fingerprint) {
  const std::int64_t number = ++ranks_[rank].collectives;
  std::vector<std::string>& given = open_[number];
  given.resize(ranks_.size());
  given[rank] = fingerprint;
  const auto differs = [&](const std::string& other) {
    return !other.empty() && other != fingerprint;
  };
  if (!mismatch_ && std::any_of(given.begin(), given.end(), differs)) {
    std::string list;
    for (std::size_t i = 0; i < given.size(); ++i)
      if (!given[i].empty())
        list += fmt::format("{}rank {} issues '{}'", list.empty() ? "" : ", ", i, given[i]);
    mismatch_ = fmt::format("the ranks disagree at collective {}: {}; every rank must issue the "
                            "same collectives in the same order",
                            number,
                            list);
  }
  const auto missing = [](const std::string& text) { return text.empty(); };
  if (std::none_of(given.begin(), given.end(), missing)) open_.erase(number);
}

std::optional<Finding> RankTable::finding(Clock::time_point now) const {
  if (auto found = failed()) return found;
  std::optional<std::string> found = mismatch_;
  if (!found) found = early_end();
  if (!found) found = dead(now);
  if (!found) found = hung();
  if (!found) return std::nullopt;
  return Finding{*found};
}

bool RankTable::all_others_left(int rank) const {
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    if (static_cast<int>(i) != rank && !ranks_[i].status.left) return false;
  return true;
}

std::string RankTable::waiting_in(std::size_t rank) const {
  const std::int64_t number = ranks_[rank].collectives;
  const auto found = open_.find(number);
  return fmt::format("rank {} waits in collective {} ('{}')",
                     rank,
                     number,
                     found == open_.end() ? "" : found->second[rank]);
}

std::optional<Finding> RankTable::failed() const {
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    if (const RankStatus& status = ranks_[i].status; !status.failed.empty())
      return Finding{fmt::format("rank {}: {}", i, status.failed), status.retired, status.cause};
  return std::nullopt;
}

// Also a rank that waits for its next request while another one has waited for it all the time.
std::optional<std::string> RankTable::early_end() const {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Rank& ended = ranks_[i];
    const bool idle =
        ended.started && ended.status.phase.empty() && ended.status.idle_ms > limits_.hung.count();
    if (!ended.status.left && !idle) continue;
    for (std::size_t other = 0; other < ranks_.size(); ++other)
      if (ranks_[other].collectives > ended.collectives &&
          (ended.status.left || ranks_[other].status.idle_ms > limits_.hung.count()))
        return fmt::format("rank {} is done after {} collectives, but {}",
                           i,
                           ended.collectives,
                           waiting_in(other));
  }
  return std::nullopt;
}

std::optional<std::string> RankTable::dead(Clock::time_point now) const {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Rank& rank = ranks_[i];
    const auto silent = std::chrono::duration_cast<std::chrono::milliseconds>(now - rank.heard_at);
    if (rank.status.left || silent <= (rank.started ? limits_.dead : limits_.start)) continue;
    if (!rank.started)
      return fmt::format("rank {} has not come within {:.0f} s", i, seconds(silent.count()));
    const std::string& phase = rank.status.phase;
    return fmt::format("rank {} is dead: no heartbeat for {:.1f} s; it was {}",
                       i,
                       seconds(silent.count()),
                       phase.empty() ? "between two phases" : "in phase '" + phase + "'");
  }
  return std::nullopt;
}

// Only the ranks that have issued the fewest collectives can delay the others.
std::optional<std::string> RankTable::hung() const {
  std::int64_t least = -1;
  for (const Rank& rank : ranks_)
    if (!rank.status.left && (least < 0 || rank.collectives < least)) least = rank.collectives;
  std::string names, waiting;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const RankStatus& status = ranks_[i].status;
    if (status.left) continue;
    if (ranks_[i].collectives > least) {
      waiting += "; " + waiting_in(i);
      continue;
    }
    if (status.limit_ms == 0 || status.idle_ms <= status.limit_ms) return std::nullopt;
    names += fmt::format("{}rank {} hangs in phase '{}' (no progress for {:.1f} s, limit {:.1f} s, "
                         "{} collectives issued)",
                         names.empty() ? "" : ", ",
                         i,
                         status.phase,
                         seconds(status.idle_ms),
                         seconds(status.limit_ms),
                         least);
  }
  if (names.empty()) return std::nullopt;
  return names + waiting;
}

} // namespace assay
