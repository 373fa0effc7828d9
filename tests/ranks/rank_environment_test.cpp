#include "core/rank_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace assay {
namespace rank_environment_test {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Result<std::optional<RankEnvironment>> read(const Variables& variables) {
  return read_rank_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string error(const Variables& variables) {
  const auto result = read(variables);
  return result ? "" : result.error().message;
}

const Variables kTorchrun{{"RANK", "3"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"MASTER_ADDR", "node0"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                          {"TORCHELASTIC_RESTART_COUNT", "2"}};
const Variables kSlurm{{"SLURM_PROCID", "1"},
                       {"SLURM_NTASKS", "2"},
                       {"SLURM_LOCALID", "0"},
                       {"MASTER_ADDR", "node0"},
                       {"MASTER_PORT", "1234"}};

Variables with(Variables variables, const char* name, const char* value) {
  if (value == nullptr)
    variables.erase(name);
  else
    variables[name] = value;
  return variables;
}

TEST(RankEnvironment, ReadsTorchrun) {
  const auto result = read(kTorchrun);
  ASSERT_TRUE(result && *result) << error(kTorchrun);
  const RankEnvironment& e = **result;
  EXPECT_EQ(e.rank, 3);
  EXPECT_EQ(e.size, 4);
  EXPECT_EQ(e.local_rank, 1);
  EXPECT_EQ(e.address, "node0");
  EXPECT_EQ(e.port, 29500);
  EXPECT_TRUE(e.agent_store);
  EXPECT_EQ(e.attempt, "2");
}

TEST(RankEnvironment, ReadsSlurm) {
  const auto result = read(kSlurm);
  ASSERT_TRUE(result && *result) << error(kSlurm);
  EXPECT_EQ((*result)->rank, 1);
  EXPECT_EQ((*result)->size, 2);
  EXPECT_FALSE((*result)->agent_store);
}

TEST(RankEnvironment, IsNothingForOneProcess) {
  for (const Variables& alone : {Variables{},
                                 with(with(kTorchrun, "WORLD_SIZE", "1"), "RANK", "0"),
                                 with(with(kSlurm, "MASTER_PORT", nullptr), "SLURM_PROCID", "0")}) {
    const auto result = read(alone);
    ASSERT_TRUE(result) << error(alone);
    EXPECT_FALSE(*result);
  }
}

TEST(RankEnvironment, NamesTheVariableThatIsWrong) {
  EXPECT_THAT(error(with(kTorchrun, "RANK", "4")), HasSubstr("RANK='4' must be a whole number"));
  EXPECT_THAT(error(with(kTorchrun, "RANK", "x")), HasSubstr("RANK='x'"));
  EXPECT_THAT(error(with(kTorchrun, "LOCAL_RANK", nullptr)), HasSubstr("LOCAL_RANK is not set"));
  EXPECT_THAT(error(with(kTorchrun, "MASTER_ADDR", nullptr)), HasSubstr("MASTER_ADDR is not set"));
  EXPECT_THAT(error(with(kSlurm, "MASTER_PORT", nullptr)), HasSubstr("export MASTER_ADDR"));
  EXPECT_THAT(error(with(kSlurm, "MASTER_PORT", "99999")), HasSubstr("MASTER_PORT='99999'"));
}

} // namespace rank_environment_test
} // namespace assay
