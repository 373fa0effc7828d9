// Result<T>: a value, or an Error with its chain of causes, for failures a caller is expected to
// handle. Exceptions (assay::Failure) end the command; only app/ prints them.
#pragma once

#include <fmt/format.h>

#include <cassert>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace assay {

// What failed, in one line that names the thing, the cause and the next action.
struct Error {
  std::string message;
};

template <class... Args>
[[nodiscard]] Error fail(fmt::format_string<Args...> format, Args&&... args) {
  return Error{fmt::format(format, std::forward<Args>(args)...)};
}

template <class T> class [[nodiscard]] Result {
public:
  Result(T value) : state_(std::move(value)) {}     // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {} // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Error& error() const { return std::get<1>(state_); }

private:
  std::variant<T, Error> state_;
};

// Ends the running command. The kind chooses the exit code (docs/cli.md); the message is all a
// person sees.
class Failure : public std::runtime_error {
public:
  enum class Kind { BadInput, Internal };
  Failure(Kind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  Kind kind() const { return kind_; }

private:
  Kind kind_;
};

template <class... Args>
[[noreturn]] void bad_input(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(Failure::Kind::BadInput, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void internal_error(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(Failure::Kind::Internal, fmt::format(format, std::forward<Args>(args)...));
}

// The value, or the command ends with the error's message as bad input.
template <class T> T value_or_throw(Result<T> result) {
  if (!result) throw Failure(Failure::Kind::BadInput, result.error().message);
  return std::move(*result);
}

} // namespace assay
