// doors/rest/wishes.h — JSON bodies as control's wishes. A wish that comes out is well-formed; what
// it asks for is control's to judge.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "control/access.h"
#include "control/fleet.h"

namespace caisson::rest {

inline constexpr double kSecondsMax = 315'360'000;  // ten years
inline constexpr double kCommandSecondsMax = 604'800;
inline constexpr std::int64_t kTerminalSideMax = 1000;
inline constexpr std::size_t kToolsMax = 64;

// Where a sandbox may go: as part of a create, or alone.
[[nodiscard]] Result<control::NetworkWish> network_wish(const boost::json::object& body,
                                                        std::string prefix);
[[nodiscard]] Result<control::CreateWish> create_wish(const boost::json::object& body);
[[nodiscard]] Result<control::LimitWish> limit_wish(const boost::json::object& body,
                                                    std::string prefix = {});

[[nodiscard]] Result<control::UsageWish> usage_wish(const boost::json::object& body);

struct ExecBody {
  control::ExecWish wish;
  bool base64 = false;  // output in the answer
};
enum class Input : std::uint8_t { InBody, Live };  // Live: stdin comes later, not in the wish
[[nodiscard]] Result<ExecBody> exec_wish(const boost::json::object& body, Input input);
// An exec, and the sandbox that is made for it.
struct RunBody {
  control::CreateWish sandbox;
  ExecBody exec;
};
[[nodiscard]] Result<RunBody> run_wish(const boost::json::object& body);
[[nodiscard]] Result<control::ProcessWish> process_wish(const boost::json::object& body);

[[nodiscard]] Result<control::CodeWish> code_wish(const boost::json::object& body);
[[nodiscard]] Result<control::ContextWish> context_wish(const boost::json::object& body);

struct SignalWish {
  int number = 0;
  bool tree = false;
};
[[nodiscard]] Result<SignalWish> signal_wish(const boost::json::object& body);
// "TERM", "SIGTERM": a number, or nothing.
[[nodiscard]] std::optional<int> signal_number(std::string_view name);

struct SizeWish {
  std::uint16_t rows = 24;
  std::uint16_t columns = 80;
};
[[nodiscard]] Result<SizeWish> size_wish(const boost::json::object& body);

[[nodiscard]] Result<control::TokenWish> token_wish(const boost::json::object& body,
                                                    const std::string& own_tenant);

}  // namespace caisson::rest
