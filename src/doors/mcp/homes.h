// doors/mcp/homes.h — the sandboxes that calls get when they name none.
//
// A Home is one of them for many calls: of a session, or of a token. The first call makes it, those
// that come meanwhile wait; one that has ended is replaced, and the call is told. All that were
// made for a token are counted together, so that a client that forgets their names fills no server.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/fleet.h"
#include "control/turns.h"
#include "doors/mcp/mcp.h"

namespace caisson::mcp {

// Label of a sandbox that this door made.
inline constexpr std::string_view kLabel = "caisson.mcp";
inline constexpr std::size_t kTokenHomesMax = 1024;

struct Place {
  std::string sandbox;
  enum class Made : std::uint8_t { Before, Now, Again } made = Made::Before;
};

class Home {
 public:
  explicit Home(const boost::asio::any_io_executor& executor) : turns_(executor, 1) {}

  [[nodiscard]] const std::string& sandbox() const noexcept { return sandbox_; }

 private:
  friend class Homes;
  control::Turns turns_;
  std::string sandbox_;  // empty: none was needed yet
  control::Caller owner_;
};

class Homes {
 public:
  Homes(boost::asio::any_io_executor executor, control::Fleet& fleet, const McpOptions& options)
      : executor_(std::move(executor)), fleet_(fleet), options_(options) {}

  [[nodiscard]] std::shared_ptr<Home> make() const { return std::make_shared<Home>(executor_); }
  // The token's own one, where the server is told so; else nothing.
  [[nodiscard]] std::shared_ptr<Home> of_token(const control::Caller& caller);

  // All that follows needs the scope "create", unless the sandbox is there.
  awaitable<Result<Place>> enter(std::shared_ptr<Home> home, control::Caller caller);
  awaitable<Result<Place>> make_one(control::Caller caller);
  // Ends its sandbox, in the background.
  void leave(const std::shared_ptr<Home>& home);

 private:
  // Those of a token that still live, and how many are being made.
  struct Made {
    std::vector<std::string> ids;
    std::size_t coming = 0;
  };
  using MadePtr = std::shared_ptr<Made>;
  class Coming;
  // Its id; ended at once when its asker has left meanwhile, since nobody has heard its name then.
  static awaitable<Result<std::string>> make_counted(control::Fleet& fleet, control::Caller caller,
                                                     control::CreateWish wish, Coming coming,
                                                     std::weak_ptr<void> asker);
  MadePtr living_of(const control::Caller& caller);
  void forget_idle_homes();

  boost::asio::any_io_executor executor_;
  control::Fleet& fleet_;
  const McpOptions& options_;
  std::map<std::string, std::shared_ptr<Home>, std::less<>> of_tokens_;
  std::map<std::string, MadePtr, std::less<>> made_;  // by token
};

}  // namespace caisson::mcp
