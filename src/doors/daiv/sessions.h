// doors/daiv/sessions.h — a session is a sandbox with our label. Whoever works with one has its
// turn, and it runs meanwhile.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "doors/daiv/call.h"

namespace caisson::daiv {

// What is said about a session is in its sandbox's labels.
inline constexpr std::string_view kTypeLabel = "daiv.sandbox.type";
inline constexpr std::string_view kTypeSession = "cmd_executor";
inline constexpr std::string_view kEphemeralLabel = "daiv.sandbox.ephemeral_session";
inline constexpr std::string_view kPatchLabel = "daiv.sandbox.extract_patch";
inline constexpr std::string_view kOlderApiLabel = "daiv.sandbox.older_api";  // it was used with it
inline constexpr std::string_view kSeededLabel = "daiv.sandbox.seeded";
inline constexpr std::string_view kStoppedLabel = "daiv.sandbox.stopped_at";  // seconds since 1970
inline constexpr std::string_view kEgressLabel = "daiv.sandbox.egress";  // its secrets' first part

inline constexpr std::string_view kRoot = "/workspace";
inline constexpr std::string_view kRepo = "/workspace/repo";
inline constexpr std::string_view kSkills = "/workspace/skills";
inline constexpr std::string_view kHome = "/home/daiv-sandbox";

[[nodiscard]] bool is_session(const control::SandboxView& view);
[[nodiscard]] bool has_label(const control::SandboxView& view, std::string_view label);
// Stopped, or laid aside where files do not outlive a stop.
[[nodiscard]] bool is_stopped(const control::SandboxView& view);

// The caller's session of that id; anything else, a sandbox that is no session included, is
// NotFound.
[[nodiscard]] Result<control::SandboxView> find_session(control::Fleet& fleet,
                                                        const control::Caller& caller,
                                                        const std::string& id);

// A session in use. It counts as used when the work begins, and again when it ends.
class Session {
 public:
  Session(Services& services, control::SandboxView view,
          std::unique_ptr<control::SessionTurn> turn);
  Session(Session&& other) noexcept = default;
  Session& operator=(Session&&) = delete;
  ~Session();

  control::SandboxView view;
  [[nodiscard]] bool has(std::string_view label) const { return has_label(view, label); }
  // It is closed: it was never used.
  void forget();

 private:
  Services* services_;
  std::unique_ptr<control::SessionTurn> turn_;
};

enum class Wake : std::uint8_t { Yes, No };  // start it when it is stopped?

// Fails with the call's refusal set: 404 with `missing`, 409, or 503.
awaitable<Result<Session>> enter(Call& call, Wake wake, std::string_view missing = kNoSession);

// Labels of a session that is being made: new ones, or none.
awaitable<Result<void>> set_label(Call& call, Session& session, std::string_view label,
                                  std::string value);

}  // namespace caisson::daiv
