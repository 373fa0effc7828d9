#include <c10/util/Exception.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "app/worker/launch/identity.h"
#include "app/worker/launch/launch.h"
#include "app/worker/launch/out_of_memory.h"
#include "app/worker/ranks/rank_channel.h"
#include "app/worker/ranks/rank_launcher.h"
#include "app/worker/worker.h"
#include "core/protocol/protocol.h"
#include "core/result.h"

namespace assay::worker {

namespace {

using nlohmann::json;

// The main thread answers; a rank's watch reports why the launch ends.
std::mutex send_mutex;

void send(const json& event) {
  const std::lock_guard lock(send_mutex);
  const std::string line = event.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t n = ::write(kWorkerEventFd, line.data() + sent, line.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) internal_error("the engine no longer listens");
    sent += static_cast<std::size_t>(n);
  }
}

json hello(const json& request) {
  if (const int protocol = request.at("protocol").get<int>(); protocol != kProtocolVersion)
    bad_input("the engine speaks protocol {}, this worker {}; build both from one checkout",
              protocol,
              kProtocolVersion);
  return {{"event", "hello"}, {"protocol", kProtocolVersion}, {"identity", to_json(identity())}};
}

TrainConfig first_config(const json& request) {
  return value_or_throw(config_from_json(request.at("variants").at(0).at("config")));
}

json error_event(const char* kind, const std::string& message) {
  return {{"event", "error"}, {"kind", kind}, {"message", message}};
}

json retired_event(int variant, const std::string& cause, const std::string& reason) {
  return {{"event", "retired"}, {"variant", variant}, {"cause", cause}, {"reason", reason}};
}

// Runs requests on this process's part of a launch.
class Session {
public:
  // `ranks` null: alone.
  json execute(const json& request, RankChannel* ranks) {
    const std::string op = request.at("op");
    std::optional<RankWatchdog::Phase> phase;
    if (ranks != nullptr) phase.emplace(ranks->watch(), op, false);
    if (op == "launch") return launch(request, ranks);
    if (launch_ == nullptr) bad_input("request '{}' before 'launch'", op);
    if (op == "round") return launch_->round(request);
    if (op == "parity") return launch_->parity();
    if (op == "memory") return launch_->memory();
    if (op == "probe") return launch_->probe();
    if (op == "stop_trace") return launch_->stop_trace();
    if (op == "finish") return finish(ranks);
    bad_input("unknown request '{}'", op);
  }

private:
  json launch(const json& request, RankChannel* ranks) {
    const TrainConfig config = first_config(request);
    open_device(config, ranks == nullptr ? 0 : ranks->place().local_rank);
    set_process(config);
    if (ranks != nullptr) ranks->open_group(config.device);
    launch_ = std::make_unique<Launch>(request,
                                       make_sampler(config),
                                       config.device == Device::Cuda ? identity().gpu_uuid
                                                                     : std::string(),
                                       ranks);
    return launch_->built();
  }

  // Every rank is here, and the watch lives: a rank that dies meanwhile is named.
  json finish(RankChannel* ranks) {
    json bye = launch_->bye();
    if (ranks == nullptr) return bye;
    launch_.reset(); // its trainers use the group
    ranks->close_group();
    return bye;
  }

  std::unique_ptr<Launch> launch_;
};

// Rank 0: the engine hears the reason before this process ends.
[[noreturn]] void report_finding(const Finding& finding) {
  try {
    send(finding.retired >= 0 ? retired_event(finding.retired, finding.cause, finding.text)
                              : error_event("failed", finding.text));
  } catch (const Failure& failure) { // the engine is gone: only the log is left
    fmt::print(stderr, "error: {}\n", failure.what());
  }
  end_process(finding);
}

// Another rank: rank 0 reports. Its own child also ends a rank 0 that cannot end by itself.
[[noreturn]] void end_rank(const Finding& finding, bool child) {
  if (child) {
    fmt::print(stderr, "error: {}\n", finding.text);
    std::this_thread::sleep_for(std::chrono::seconds(1));
    ::kill(::getppid(), SIGKILL);
  }
  end_process(finding);
}

// The engine's session: alone, or as rank 0 of several, which follow it.
class EngineSession {
public:
  json answer(const json& request) {
    const std::string op = request.at("op");
    if (op == "hello") return hello(request);
    if (op == "launch") bring_ranks(static_cast<int>(first_config(request).ranks));
    if (ranks_) ranks_->post(request);
    json own = session_.execute(request, ranks_.get());
    return ranks_ ? ranks_->merge_with_others(std::move(own)) : own;
  }

  // The launch ends without its "bye".
  void abandon(const std::string& why,
               bool maybe_another,
               int retired = -1,
               const std::string& cause = {}) {
    if (!ranks_) return;
    ranks_->fail(why, maybe_another, retired, cause);
    abandoned_ = true;
  }
  // The other ranks are ending: their last collective may never complete, nor what waits for it.
  bool abandoned() const { return abandoned_; }

private:
  void bring_ranks(int size) {
    if (size == 1) return;
    host_ = std::make_unique<RankLauncher>(size);
    WatchOptions options;
    options.holds_store = host_->holds_store();
    options.store_owner = "the ranks' TCPStore";
    options.on_finding = report_finding;
    ranks_ = std::make_unique<RankChannel>(host_->store(), host_->place(), std::move(options));
  }

  // Ended in the opposite order: the launch uses the ranks, which use the store.
  std::unique_ptr<RankLauncher> host_;
  std::unique_ptr<RankChannel> ranks_;
  Session session_;
  bool abandoned_ = false;
};

int report(EngineSession& session,
           const char* kind,
           const std::string& message,
           bool maybe_another) {
  session.abandon(message, maybe_another); // does not return where another rank is the cause
  send(error_event(kind, message));
  return 1;
}

// Nothing, or the exit code with which the session is over.
std::optional<int> serve_line(EngineSession& session, const std::string& line) {
  try {
    const json request = json::parse(line);
    try {
      send(session.answer(request));
    } catch (const Retired& retired) {
      const auto variant = static_cast<int>(retired.variant);
      session.abandon(retired.reason, false, variant, retired.cause);
      send(retired_event(variant, retired.cause, retired.reason));
    }
    if (request.at("op") == "finish") return 0;
    return std::nullopt;
  } catch (const Failure& failure) {
    const bool bad = failure.kind() == Failure::Kind::BadInput;
    return report(session, bad ? "bad_input" : "internal", failure.what(), false);
  } catch (const std::bad_alloc&) {
    return report(session, "out_of_memory", "no more was there", false);
  } catch (const c10::Error& error) {
    if (const std::string text = out_of_memory_text(error); !text.empty())
      return report(session, "out_of_memory", text, false);
    return report(session, "internal", error.what_without_backtrace(), true);
  } catch (const std::exception& error) {
    return report(session, "internal", error.what(), true);
  }
}

// Requests of rank 0, until "finish".
void serve_requests(RankChannel& ranks) {
  Session session;
  for (;;) {
    const json request = ranks.next_request();
    ranks.answer(session.execute(request, &ranks));
    if (request.at("op") == "finish") return;
  }
}

} // namespace

int serve_engine() {
  EngineSession session;
  std::string line;
  std::optional<int> code;
  while (!code && std::getline(std::cin, line)) code = serve_line(session, line);
  if (!code) session.abandon("the engine ended the launch", false); // it closed the pipe
  if (session.abandoned()) ::_exit(code.value_or(0));
  return code.value_or(0);
}

int serve_rank() {
  JoinedLaunch joined = join_launch();
  WatchOptions options;
  options.on_finding = [child = joined.child_of_rank_0](const Finding& finding) {
    end_rank(finding, child);
  };
  RankChannel ranks(joined.store, joined.place, std::move(options));
  const auto fail = [&](const std::string& why,
                        bool maybe_another,
                        int retired = -1,
                        const std::string& cause = {}) {
    ranks.fail(why, maybe_another, retired, cause);
    fmt::print(stderr, "error: rank {}: {}\n", joined.place.rank, why);
    return 1;
  };
  try {
    serve_requests(ranks);
    return 0;
  } catch (const Retired& retired) {
    return fail(retired.reason, false, static_cast<int>(retired.variant), retired.cause);
  } catch (const Failure& failure) {
    return fail(failure.what(), false);
  } catch (const c10::Error& error) {
    return fail(error.what_without_backtrace(), true);
  } catch (const std::exception& error) {
    return fail(error.what(), true);
  }
}

} // namespace assay::worker
