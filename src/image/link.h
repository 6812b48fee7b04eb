// image/link.h — one connection to a registry: resolved once, judged, dialled at the judged
// address, and with TLS unless the URL says http. Every wait has an end.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "image/registry.h"
#include "image/url.h"

namespace caisson::image {

inline constexpr std::size_t kAddressesMax = 16;  // of one name; more are not tried

// The system's authorities and the extra file; TLS 1.2 and up.
[[nodiscard]] Result<std::unique_ptr<boost::asio::ssl::context>> make_tls_context(
    const std::string& extra_ca_file);

class Link {
 public:
  // Denied: the judge refused an address of that name. Gone: nobody answers, or cancelled.
  // TimedOut: not within the time. Protocol: its certificate is not good for that host.
  static awaitable<Result<std::unique_ptr<Link>>> connect(boost::asio::any_io_executor executor,
                                                          boost::asio::ssl::context& tls,
                                                          const RegistryOptions& options, Url url);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // 0 at the end.
  awaitable<Result<std::size_t>> read_some(std::span<std::byte> out);
  awaitable<Result<void>> write(std::string_view bytes);

 private:
  struct State;
  explicit Link(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace caisson::image
