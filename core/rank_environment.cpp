#include "core/rank_environment.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace assay {

namespace {

using Get = std::function<const char*(const char*)>;

Result<int> number(const Get& get, const char* name, int least, int most) {
  const char* text = get(name);
  if (text == nullptr)
    return fail("{} is not set; torchrun sets it, under srun export MASTER_ADDR and MASTER_PORT",
                name);
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, value);
  if (error != std::errc() || at != end || value < least || value > most)
    return fail("{}='{}' must be a whole number from {} to {}", name, text, least, most);
  return value;
}

} // namespace

Result<std::optional<RankEnvironment>> read_rank_environment(const Get& get) {
  constexpr int kMostRanks = 1 << 20, kMostPort = 65535;
  using Nothing = std::optional<RankEnvironment>;
  const bool torchrun = get("RANK") != nullptr && get("WORLD_SIZE") != nullptr;
  if (!torchrun && (get("SLURM_PROCID") == nullptr || get("SLURM_NTASKS") == nullptr))
    return Nothing();
  RankEnvironment result;
  const Result<int> size = number(get, torchrun ? "WORLD_SIZE" : "SLURM_NTASKS", 1, kMostRanks);
  if (!size) return size.error();
  const Result<int> rank = number(get, torchrun ? "RANK" : "SLURM_PROCID", 0, *size - 1);
  if (!rank) return rank.error();
  if (*size == 1) return Nothing();
  if (!torchrun && *rank == 0 && get("MASTER_PORT") == nullptr) return Nothing();
  const char* local = torchrun ? "LOCAL_RANK" : "SLURM_LOCALID";
  const Result<int> local_rank = number(get, local, 0, kMostRanks);
  if (!local_rank) return local_rank.error();
  const Result<int> port = number(get, "MASTER_PORT", 1, kMostPort);
  if (!port) return port.error();
  const char* address = get("MASTER_ADDR");
  if (address == nullptr || *address == '\0')
    return fail("MASTER_ADDR is not set; export the name of rank 0's machine");
  const char* agent = get("TORCHELASTIC_USE_AGENT_STORE");
  const char* attempt = get("TORCHELASTIC_RESTART_COUNT");
  return Nothing({.rank = *rank,
                  .size = *size,
                  .local_rank = *local_rank,
                  .address = address,
                  .port = *port,
                  .agent_store = agent != nullptr && std::strcmp(agent, "True") == 0,
                  .attempt = attempt == nullptr ? "0" : attempt});
}

Result<std::optional<RankEnvironment>> read_rank_environment() {
  return read_rank_environment([](const char* name) -> const char* { return std::getenv(name); });
}

} // namespace assay
