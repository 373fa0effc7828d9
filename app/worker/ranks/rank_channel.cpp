#include "app/worker/ranks/rank_channel.h"

#include <fmt/format.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "app/worker/ranks/merge_answers.h"
#include "app/worker/ranks/rank_store.h"
#include "core/result.h"

namespace assay::worker {

namespace {

using nlohmann::json;

constexpr std::chrono::seconds kCauseTime{4}; // longer than a dead rank stays unnoticed

std::string request_queue(int rank) {
  return fmt::format("request/{}", rank);
}

std::string answer_queue(int rank) {
  return fmt::format("answer/{}", rank);
}

} // namespace

RankChannel::RankChannel(c10::intrusive_ptr<c10d::Store> store,
                         RankPlace place,
                         WatchOptions options)
    : place_(place), store_(std::move(store)), messages_(store_->clone()),
      watch_(store_, place.rank, place.size, std::move(options)) {
  messages_->setTimeout(kNoTimeout);
}

void RankChannel::open_group(Device device) {
  group_ = std::make_shared<ProcessGroup>(
      c10::make_intrusive<c10d::PrefixStore>("group", store_->clone()),
      place_,
      device,
      [this](std::string fingerprint) { watch_.issue(std::move(fingerprint)); });
}

void RankChannel::push(const std::string& queue, const json& message) {
  const std::string text = message.dump(-1, ' ', false, json::error_handler_t::replace);
  messages_->queuePush(queue, {text.begin(), text.end()});
}

json RankChannel::pop(const std::string& queue) {
  return json::parse(next_message(*messages_, queue));
}

void RankChannel::post(const json& request) {
  for (int rank = 1; rank < place_.size; ++rank) push(request_queue(rank), request);
}

json RankChannel::merge_with_others(json own) {
  std::vector<json> answers{std::move(own)};
  for (int rank = 1; rank < place_.size; ++rank) answers.push_back(pop(answer_queue(rank)));
  return merge_answers(answers);
}

json RankChannel::next_request() {
  return pop(request_queue(place_.rank));
}

void RankChannel::answer(const json& event) {
  push(answer_queue(place_.rank), event);
}

void RankChannel::fail(const std::string& why,
                       bool maybe_another,
                       int retired,
                       const std::string& cause) {
  if (maybe_another && watch_.wait_for_finding(kCauseTime))
    for (;;) ::pause(); // the watch's thread reports it and ends the process
  watch_.fail(why, retired, cause);
}

} // namespace assay::worker
