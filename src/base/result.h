// base/result.h — how the library zone says that something did not work.
// An ordinary failure is a value: Result<T> holds a T or an Error. TRY(expr) unwraps one, or
// returns its error. TRY is a GNU statement expression: one per statement, never nested, never in a
// coroutine.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace caisson {

// What the caller may act on. One table per door maps these to HTTP, gRPC or an exit status.
enum class Errc : std::uint8_t {
  InvalidArgument,  // the caller's input is wrong; the message names the field, the value and the
                    // remedy
  NotFound,         // no such sandbox, process, file or program
  AlreadyExists,    // an id or name that is taken
  Denied,           // a policy or the kernel says no
  Unauthenticated,  // nobody we know is calling
  Unsupported,      // this host, tier or version cannot enforce or do it
  Exhausted,        // a limit with a name is reached
  TooLarge,         // what was sent or asked for is beyond a limit of size
  TimedOut,         // a deadline passed
  Busy,             // the object's state forbids it now; trying later may work
  Gone,             // the sandbox or its init ended while we waited
  LauncherGone,     // nobody is there to make or reach sandboxes
  StoreFull,        // the record cannot be written, so nothing may be done
  Protocol,         // a peer sent bytes that are not in the protocol
  Internal,         // a system call failed that should not have
};

[[nodiscard]] std::string_view to_string(Errc code) noexcept;

struct Error {
  Errc code = Errc::Internal;
  std::string message;  // outermost first: "create sb_7: mount tmpfs on /tmp: Permission denied"
  int sys_errno = 0;    // 0 when no system call was involved
  std::string
      field{};  // which part of the caller's input is wrong, "resource_limits.cpu"; or empty

  // The same failure, one caller further out.
  [[nodiscard]] Error within(std::string_view outer) const;

  friend bool operator==(const Error&, const Error&) = default;
};

template <class T>
using Result = std::expected<T, Error>;

[[nodiscard]] std::unexpected<Error> failure(Errc code, std::string message);

// Bad input, with the place where it stood.
[[nodiscard]] std::unexpected<Error> bad_field(std::string field, std::string message);

// A failed system call: the message ends in the errno's text and the code follows from the errno.
[[nodiscard]] std::unexpected<Error> sys_failure(std::string_view what, int sys_errno);

// The errno's text, without a locale or a lock.
[[nodiscard]] std::string errno_text(int sys_errno);

}  // namespace caisson

// NOLINTBEGIN(bugprone-macro-parentheses): `expr` is an initialiser, parentheses would change its
// meaning.
#define TRY(expr)                                                    \
  __extension__({                                                    \
    auto caisson_try_result = (expr);                                \
    if (!caisson_try_result) [[unlikely]]                            \
      return std::unexpected(std::move(caisson_try_result).error()); \
    std::move(caisson_try_result).value();                           \
  })

// TRY with one more word of context for the person who reads the message.
#define TRY_IN(outer, expr)                                             \
  __extension__({                                                       \
    auto caisson_try_result = (expr);                                   \
    if (!caisson_try_result) [[unlikely]]                               \
      return std::unexpected(caisson_try_result.error().within(outer)); \
    std::move(caisson_try_result).value();                              \
  })
// NOLINTEND(bugprone-macro-parentheses)

// A bug in this program, never a consequence of input: says where, then aborts.
#define CAISSON_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::caisson::assert_failed(#condition, __FILE__, __LINE__))

namespace caisson {
[[noreturn]] void assert_failed(const char* condition, const char* file, int line) noexcept;
}  // namespace caisson
