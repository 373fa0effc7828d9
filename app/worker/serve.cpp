#include <c10/util/Exception.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "app/worker/identity.h"
#include "app/worker/launch.h"
#include "app/worker/worker.h"
#include "core/result.h"
#include "experiments/protocol.h"

namespace assay::worker {

namespace {

using nlohmann::json;

void send(const json& event) {
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

class Session {
public:
  // The answer, or nothing when the session is over.
  json answer(const json& request) {
    const std::string op = request.at("op");
    if (op == "hello") return hello(request);
    if (op == "launch") {
      const TrainConfig config = first_config(request);
      open_device(config);
      set_threads(config);
      launch_ = std::make_unique<Launch>(request,
                                         make_sampler(config),
                                         config.device == Device::Cuda ? identity().gpu_uuid
                                                                       : std::string());
      return launch_->built();
    }
    if (launch_ == nullptr) bad_input("request '{}' before 'launch'", op);
    if (op == "round") return launch_->round(request);
    if (op == "parity") return launch_->parity();
    if (op == "memory") return launch_->memory();
    if (op == "probe") return launch_->probe();
    if (op == "stop_trace") return launch_->stop_trace();
    if (op == "finish") return launch_->bye();
    bad_input("unknown request '{}'", op);
  }

private:
  std::unique_ptr<Launch> launch_;
};

int report(const char* kind, const std::string& message) {
  send({{"event", "error"}, {"kind", kind}, {"message", message}});
  return 1;
}

} // namespace

int serve_engine() {
  Session session;
  std::string line;
  while (std::getline(std::cin, line)) {
    try {
      const json request = json::parse(line);
      try {
        send(session.answer(request));
      } catch (const Retired& retired) {
        send({{"event", "retired"}, {"variant", retired.variant}, {"reason", retired.reason}});
      }
      if (request.at("op") == "finish") return 0;
    } catch (const Failure& failure) {
      return report(failure.kind() == Failure::Kind::BadInput ? "bad_input" : "internal",
                    failure.what());
    } catch (const std::bad_alloc&) {
      return report("out_of_memory", "the worker ran out of memory");
    } catch (const c10::Error& error) {
      return report("internal", error.what_without_backtrace());
    } catch (const std::exception& error) {
      return report("internal", error.what());
    }
  }
  return 0; // the engine closed the pipe
}

} // namespace assay::worker
