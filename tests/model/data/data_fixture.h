// A directory of its own for each test, and files to put into it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace assay {

class DataTest : public testing::Test {
protected:
  DataTest() {
    const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
    const std::string name = std::string(info->test_suite_name()) + "." + info->name();
    directory_ = std::filesystem::temp_directory_path() /
                 ("assay-" + name + "-" + std::to_string(::getpid()));
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  ~DataTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  std::string path(const std::string& name = "") const { return (directory_ / name).string(); }

  std::string write(const std::string& name, std::string_view content) const {
    std::filesystem::create_directories((directory_ / name).parent_path());
    std::ofstream file(directory_ / name, std::ios::binary);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    return path(name);
  }

  std::string write_gzip(const std::string& name, std::string_view content) const {
    std::filesystem::create_directories((directory_ / name).parent_path());
    gzFile file = gzopen(path(name).c_str(), "wb6");
    gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
    gzclose(file);
    return path(name);
  }

  static std::string contents(const std::string& file) {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    return text.str();
  }

  std::vector<std::string> listing() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  std::filesystem::path directory_;
};

// The message of the bad-input failure that `action` ends with; anything else is a test failure.
template <class Action> std::string bad_input_message(Action&& action) {
  try {
    action();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), Failure::Kind::BadInput) << failure.what();
    return failure.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

inline void expect_mentions(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos)
        << "'" << part << "' is missing in: " << message;
  }
  EXPECT_EQ(message.find('\n'), std::string::npos) << "not one line: " << message;
}

} // namespace assay
