#include "app/worker/ranks/rank_store.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>

#include "core/result.h"

namespace assay::worker {

namespace {

constexpr std::chrono::seconds kSilentWait{5}; // for rank 0's store; then a message is printed

// A socket bound to 127.0.0.1, so that nobody outside this machine reaches the store, which asks
// for no password. Port 0 is any free one.
int loopback_socket(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) internal_error("socket: {}", std::strerror(errno));
  const int yes = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    ::close(fd);
    bad_input(
        "127.0.0.1:{} cannot be bound: {}; give another MASTER_PORT", port, std::strerror(error));
  }
  return fd;
}

} // namespace

// Ranks on other machines need the store on every interface; those of this machine do not.
c10::intrusive_ptr<c10d::TCPStore> host_store(const std::string& address, int port) {
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.waitWorkers = false;
  options.port = static_cast<std::uint16_t>(port);
  if (address == kThisMachine || address == "localhost") {
    options.masterListenFd = loopback_socket(port);
    sockaddr_in bound{};
    socklen_t size = sizeof bound;
    if (::getsockname(*options.masterListenFd, reinterpret_cast<sockaddr*>(&bound), &size) != 0)
      internal_error("getsockname: {}", std::strerror(errno));
    options.port = ntohs(bound.sin_port);
  }
  return c10::make_intrusive<c10d::TCPStore>(kThisMachine, options);
}

StorePtr connect_store(const std::string& address, int port) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.waitWorkers = false;
  return c10::make_intrusive<c10d::TCPStore>(address, options);
}

StorePtr wait_for_rank_0(const RankEnvironment& environment) {
  const std::string where = fmt::format("{}:{}", environment.address, environment.port);
  const std::jthread notice([&](const std::stop_token& connected) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any().wait_for(
        lock, connected, kSilentWait, [&] { return connected.stop_requested(); });
    if (connected.stop_requested()) return;
    fmt::print(stderr,
               "rank {} waits for rank 0 at {} (MASTER_ADDR:MASTER_PORT); where rank 0 has ended, "
               "its own output has the reason\n",
               environment.rank,
               where);
  });
  try {
    return connect_store(environment.address, environment.port);
  } catch (const c10::Error& error) {
    const std::string why = error.what_without_backtrace();
    bad_input(
        "rank 0 did not open its store at {} (MASTER_ADDR:MASTER_PORT) within {} minutes: "
        "its own output has the reason, or the address does not lead to it ({})",
        where,
        std::chrono::duration_cast<std::chrono::minutes>(c10d::Store::kDefaultTimeout).count(),
        why.substr(0, why.find('\n')));
  }
}

// LibTorch's store forgets no client that it has woken for a queue: the next message there wakes it
// again, whatever it waits for by then, and that queue is empty.
std::vector<std::uint8_t> next_message(c10d::Store& store, const std::string& queue) {
  for (;;) {
    try {
      return store.queuePop(queue, true);
    } catch (const c10::DistQueueEmptyError&) {
      continue;
    }
  }
}

} // namespace assay::worker
