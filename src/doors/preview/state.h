// doors/preview/state.h — what the door's parts share.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "doors/preview/admission.h"
#include "doors/preview/page.h"
#include "doors/preview/places.h"
#include "doors/preview/preview.h"
#include "doors/preview/visits.h"

namespace caisson::preview {

struct Door::State {
  State(control::Fleet& all, control::Access& tokens, control::Logins& known, PreviewOptions wanted)
      : fleet(all),
        access(tokens),
        logins(known),
        options(std::move(wanted)),
        places({options.streams_max, options.streams_per_tenant_max,
                options.streams_per_sandbox_max}) {}

  // --- door.cc
  awaitable<Result<void>> serve(http::Exchange& exchange, const Name& name, Visitor& visitor);
  awaitable<Result<void>> visit(http::Exchange& exchange, const Name& name, const Visitor& visitor,
                                std::string target);
  [[nodiscard]] std::optional<control::SandboxView> look_up(const std::string& sandbox) const;

  // --- ports.cc
  struct Reached {
    control::PortSocket inside;
    std::uint16_t port = 0;
  };
  awaitable<Result<Reached>> reach(const control::Caller& caller, Name name);
  awaitable<Result<control::PortSocket>> connect(const control::Caller& caller, std::string sandbox,
                                                 std::uint16_t port);

  // --- entry.cc
  awaitable<Result<void>> serve_own(http::Exchange& exchange, const Name& name, std::string path);
  awaitable<Result<void>> enter(http::Exchange& exchange, const Name& name);
  [[nodiscard]] Result<std::string> invite(const control::Caller& caller, const Name& name,
                                           std::string_view path);
  [[nodiscard]] std::string login_address(const Name& name, std::string_view target) const;
  [[nodiscard]] std::string_view cookie_name() const;
  [[nodiscard]] std::string cookie(std::string_view secret) const;

  control::Fleet& fleet;
  control::Access& access;
  control::Logins& logins;
  PreviewOptions options;
  Places places;
  Memory<bool> visits{kVisitsMax, kVisitLife};
  Memory<std::uint16_t> likely_ports{kLikelyPortsMax, kLikelyPortLife};
};

// Path and query as they were sent.
[[nodiscard]] std::string target_of(const http::Request& request);

}  // namespace caisson::preview
