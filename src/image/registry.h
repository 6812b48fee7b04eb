// image/registry.h — a registry by the OCI distribution protocol, over HTTP/1.1 and verified TLS.
// Everything that comes back is hostile: bounded, checked, and never followed inward. Each address
// that is dialled, for a redirect or a token too, has been judged, and is dialled as it was judged.
// Credentials go to their registry and its token service, and are dropped on every other host.
//
// Coroutines of one thread; to cancel, cancel the coroutine (a terminal signal): it answers with
// Gone.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "image/credentials.h"
#include "image/digest.h"
#include "image/manifest.h"
#include "image/reference.h"

namespace caisson::image {

using boost::asio::awaitable;

inline constexpr unsigned kRedirectsMax = 5;
inline constexpr unsigned kAttemptsMax = 5;
inline constexpr std::size_t kAnswerHeadBytesMax = 32UL * 1024;
inline constexpr std::size_t kErrorBodyBytesMax = 16UL * 1024;
inline constexpr std::size_t kTokenBytesMax = 64UL * 1024;
inline constexpr std::size_t kTokensMax = 256;  // kept at once
inline constexpr seconds kRetryAfterMax{60};

// May we connect there? Given by whoever knows the network; asked for every address.
using AddressJudge = std::function<Result<void>(const boost::asio::ip::address& address,
                                                std::string_view host, std::uint16_t port)>;
// Names to addresses. There is none by default: a static program cannot ask the system's resolver,
// which loads libraries. Without one only addresses and localhost are reached.
using Resolve =
    std::function<awaitable<Result<std::vector<boost::asio::ip::address>>>(std::string host)>;

struct Mirrors {
  std::vector<std::string> urls;  // "https://mirror.example[:port][/prefix]", tried in this order
  bool only = false;              // never ask the registry itself
};

struct RegistryOptions {
  AddressJudge judge;  // without one, nothing is dialled
  Resolve resolve;
  std::string extra_ca_file;               // beside the system's authorities
  std::vector<std::string> insecure;       // "host[:port]" that is spoken to without TLS
  bool loopback_http = false;              // and so are 127.0.0.0/8, ::1 and localhost
  std::map<std::string, Mirrors> mirrors;  // by registry: "docker.io"
  std::map<std::string, std::vector<std::string>> realms;  // by registry: hosts of token services
  milliseconds connect_timeout{10000};
  milliseconds stall_timeout{30000};  // without a byte
  milliseconds retry_delay{300};      // doubled each time, with jitter
  unsigned attempts_max = kAttemptsMax;
};

struct FetchedManifest {
  Digest digest;
  std::string media_type;
  std::string text;
};

// Takes the next bytes of a blob.
using BlobSink = std::function<Result<void>(std::span<const std::byte>)>;

// Where a blob's bytes go, and how many are there already.
struct BlobTarget {
  std::function<std::uint64_t()> offset;
  std::function<Result<void>()> restart;  // the peer begins anew
  BlobSink write;
};

class Registry {
 public:
  Registry(boost::asio::any_io_executor executor, RegistryOptions options);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // By digest if the reference has one, else by its tag. The text is what the digest says.
  awaitable<Result<FetchedManifest>> manifest(Reference reference, Credentials credentials);
  // One by digest, below an index.
  awaitable<Result<FetchedManifest>> manifest(Reference reference, Digest digest,
                                              Credentials credentials);
  // Exactly descriptor.size bytes, or an error. What they hash to is the target's business.
  awaitable<Result<void>> blob(Reference reference, Descriptor descriptor, Credentials credentials,
                               BlobTarget target);

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace caisson::image
