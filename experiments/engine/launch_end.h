// Why a launch ends before its time: for the files of LaunchRunner.
#pragma once

#include <string>
#include <utility>

#include "core/result.h"
#include "experiments/engine/launch_runner.h"

namespace assay {

struct LaunchRunner::End {
  enum class Why { Failed, Retired, Stopped, BadInput } why;
  std::string reason;

  static End failed(std::string reason) { return {Why::Failed, std::move(reason)}; }
  static End retired(std::string reason) { return {Why::Retired, std::move(reason)}; }
  static End stopped(std::string reason) { return {Why::Stopped, std::move(reason)}; }
  static End bad_input(std::string reason) { return {Why::BadInput, std::move(reason)}; }
};

// A value the protocol promises, or the end of the launch.
template <class T> T require(Result<T> result, auto make_end) {
  if (!result) throw make_end(result.error().message);
  return std::move(*result);
}

} // namespace assay
