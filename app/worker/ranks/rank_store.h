// The store through which the ranks of a launch find each other: LibTorch's TCPStore. It asks for
// no password.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "core/rank_environment.h"

namespace assay::worker {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

constexpr const char* kThisMachine = "127.0.0.1";
// Of a wait on the store: the watch ends one that is too long.
inline constexpr std::chrono::hours kNoTimeout{24 * 365};

// Serves on `port` (0: any free one) until it is destroyed: on the loopback interface alone where
// `address`, by which the ranks reach it, is this machine's own name for itself, else on every one.
// Throws bad input when the port is taken.
c10::intrusive_ptr<c10d::TCPStore> host_store(const std::string& address, int port);

// Waits up to c10d's default of five minutes. Throws c10::Error.
StorePtr connect_store(const std::string& address, int port);

// As connect_store(), and prints on standard error after five seconds that it waits: ranks of one
// job may start minutes apart, and rank 0 may have failed before it opened its store. Throws bad
// input when rank 0 never comes.
StorePtr wait_for_rank_0(const RankEnvironment& environment);

// Waits for the next message of a queue, as long as the store's timeout.
std::vector<std::uint8_t> next_message(c10d::Store& store, const std::string& queue);

} // namespace assay::worker
