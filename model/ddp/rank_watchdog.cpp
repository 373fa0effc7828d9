#include "model/ddp/rank_watchdog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include "core/statistics/statistics.h"

namespace assay {

namespace {

using std::chrono::milliseconds;
using Clock = RankTable::Clock;

constexpr std::size_t kPhasesKept = 64, kPhasesNeeded = 3;
constexpr double kHungMedians = 10;
constexpr milliseconds kJudgeInterval{100};

milliseconds since(Clock::time_point then, Clock::time_point now) {
  return std::chrono::duration_cast<milliseconds>(now - then);
}

// Messages from one rank to another, in order.
std::string queue_name(int from, int to) {
  return fmt::format("watch/{}/{}", from, to);
}

} // namespace

void end_process(const Finding& finding) {
  fmt::print(stderr, "error: {}\n", finding.text);
  std::fflush(stderr);
  ::_exit(1);
}

RankWatchdog::RankWatchdog(const c10::intrusive_ptr<c10d::Store>& store,
                           int rank,
                           int size,
                           WatchOptions options)
    : rank_(rank), size_(size), options_(std::move(options)), store_(store->clone()),
      board_(size, options_.limits, Clock::now()), exchanged_at_(Clock::now()),
      progress_at_(Clock::now()), exchanger_([this] { exchange_loop(); }),
      judge_([this] { judge_loop(); }) {}

RankWatchdog::~RankWatchdog() {
  std::unique_lock lock(mutex_);
  leaving_ = true;
  changed_.notify_all();
  // The store's server ends with this process; the others must have sent their last message by
  // then.
  const auto said = [this] {
    return !exchanging_ || (options_.holds_store && board_.all_others_left(rank_));
  };
  if (!changed_.wait_for(lock, options_.limits.dead, said) && !options_.holds_store)
    end_process({options_.store_owner + " does not answer"});
  exchanging_ = false;
  changed_.notify_all();
  lock.unlock();
  judge_.join();
  exchanger_.join();
}

void RankWatchdog::issue(std::string fingerprint) {
  const std::lock_guard lock(mutex_);
  unpublished_.push_back(std::move(fingerprint));
  progress_at_ = Clock::now();
}

RankWatchdog::Phase::Phase(RankWatchdog& watch, std::string name, bool limited)
    : watch_(watch), name_(std::move(name)), begin_(Clock::now()) {
  const std::lock_guard lock(watch_.mutex_);
  outer_ = std::exchange(watch_.phase_, name_);
  outer_limited_ = std::exchange(watch_.limited_, limited);
  watch_.progress_at_ = begin_;
}

RankWatchdog::Phase::~Phase() {
  const Clock::time_point now = Clock::now();
  const std::lock_guard lock(watch_.mutex_);
  if (watch_.limited_) {
    std::deque<double>& kept = watch_.durations_[name_];
    kept.push_back(std::chrono::duration<double, std::milli>(now - begin_).count());
    if (kept.size() > kPhasesKept) kept.pop_front();
  }
  watch_.phase_ = outer_;
  watch_.limited_ = outer_limited_;
  watch_.progress_at_ = now;
}

void RankWatchdog::fail(const std::string& why, int retired, const std::string& cause) {
  std::unique_lock lock(mutex_);
  failed_ = why;
  retired_ = retired;
  cause_ = cause;
  leaving_ = true;
  changed_.notify_all();
  // Until it is published, or the store is gone too.
  changed_.wait_for(lock, options_.limits.dead, [this] { return !exchanging_; });
}

std::optional<Finding> RankWatchdog::wait_for_finding(milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] { return finding_.has_value(); });
  return finding_;
}

// The limit of what the main thread does now; 0: none.
milliseconds RankWatchdog::limit_of_phase() const {
  if (!limited_) return milliseconds(0);
  const auto found = durations_.find(phase_);
  if (found == durations_.end() || found->second.size() < kPhasesNeeded) return options_.first_hung;
  const double usual = median({found->second.begin(), found->second.end()});
  return std::max(options_.limits.hung,
                  milliseconds(static_cast<std::int64_t>(kHungMedians * usual)));
}

RankStatus RankWatchdog::take_status(Clock::time_point now) {
  RankStatus status;
  status.phase = phase_;
  status.idle_ms = since(progress_at_, now).count();
  status.limit_ms = limit_of_phase().count();
  status.issued = std::exchange(unpublished_, {});
  status.left = leaving_ && failed_.empty();
  status.failed = failed_;
  status.retired = retired_;
  status.cause = cause_;
  return status;
}

void RankWatchdog::exchange_loop() {
  std::unique_lock lock(mutex_);
  try {
    for (bool said_last = false; exchanging_;) {
      said_last = leaving_;
      exchange(lock);
      if (said_last && (!options_.holds_store || !failed_.empty())) break;
      changed_.wait_for(lock, said_last ? kJudgeInterval : options_.beat, [&] {
        return !exchanging_ || (leaving_ && !said_last);
      });
    }
  } catch (const std::exception& error) {
    if (!lock.owns_lock()) lock.lock();
    store_error_ = error.what();
  }
  exchanging_ = false;
  changed_.notify_all();
}

// Says how this rank is and hears how the others are; without the lock while it talks.
void RankWatchdog::exchange(std::unique_lock<std::mutex>& lock) {
  const RankStatus own = take_status(Clock::now());
  board_.heard(rank_, own, Clock::now());
  lock.unlock();
  const std::string text = own.text();
  const std::vector<std::uint8_t> message(text.begin(), text.end());
  std::vector<std::pair<int, RankStatus>> news;
  for (int other = 0; other < size_; ++other)
    if (other != rank_) store_->queuePush(queue_name(rank_, other), message);
  for (int other = 0; other < size_; ++other) {
    const std::string queue = queue_name(other, rank_);
    for (std::int64_t left = other == rank_ ? 0 : store_->queueLen(queue); left > 0; --left) {
      const std::vector<std::uint8_t> heard = store_->queuePop(queue, false);
      news.emplace_back(other, RankStatus::from_text({heard.begin(), heard.end()}));
    }
  }
  lock.lock();
  for (const auto& [other, status] : news) board_.heard(other, status, Clock::now());
  exchanged_at_ = Clock::now();
  changed_.notify_all();
}

std::optional<Finding> RankWatchdog::judge(Clock::time_point now) const {
  if (const auto found = board_.finding(now)) return found;
  const milliseconds silent = since(exchanged_at_, now);
  if (store_error_.empty() && silent <= options_.limits.dead) return std::nullopt;
  return Finding{fmt::format(
      "{} is gone: {}",
      options_.store_owner,
      store_error_.empty()
          ? fmt::format("no answer for {:.1f} s", static_cast<double>(silent.count()) / 1e3)
          : store_error_.substr(0, store_error_.find('\n')))};
}

// Ends at the first finding, or when this rank leaves.
void RankWatchdog::judge_loop() {
  std::unique_lock lock(mutex_);
  while (!leaving_) {
    if (const auto found = judge(Clock::now())) {
      finding_ = found;
      changed_.notify_all();
      lock.unlock();
      options_.on_finding(*found);
      return;
    }
    changed_.wait_for(lock, kJudgeInterval, [this] { return leaving_; });
  }
}

} // namespace assay
