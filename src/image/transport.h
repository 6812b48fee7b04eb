// image/transport.h — requests to one registry or mirror: who we are, where it redirects to, and
// what each of its answers means. Start at Transport::get().
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "image/challenge.h"
#include "image/http_call.h"

namespace caisson::image {

// One place that serves a repository: the registry itself, or a mirror of it.
struct Endpoint {
  Url base;          // its target ends in '/'
  std::string name;  // "host[:port]" that credentials and realms are kept under
};

// Something to be fetched.
struct Wanted {
  Endpoint endpoint;
  std::string repository;
  std::string path;  // below the repository: "manifests/latest"
  std::vector<std::pair<std::string, std::string>> fields;
  Login login;  // for this endpoint
};

using Call = std::unique_ptr<HttpCall>;

class Transport {
 public:
  Transport(boost::asio::any_io_executor executor, RegistryOptions options);

  // The endpoints for a registry, in the order in which they are tried.
  [[nodiscard]] Result<std::vector<Endpoint>> endpoints(const std::string& registry) const;

  // An answer with status 200 or 206. NotFound, Unauthenticated and Denied are what they say; Busy
  // is an answer that may be better later, and `retry_after` then says when, if the peer did.
  awaitable<Result<Call>> get(Wanted wanted, seconds& retry_after);

  [[nodiscard]] const RegistryOptions& options() const noexcept { return options_; }
  [[nodiscard]] const boost::asio::any_io_executor& executor() const noexcept { return executor_; }

 private:
  struct KeptToken {
    std::string text;
    TimePoint until;
  };

  [[nodiscard]] Result<void> check_scheme(const Url& url) const;
  [[nodiscard]] Result<void> check_realm(const Endpoint& endpoint, const Url& realm) const;
  awaitable<Result<Call>> send(CallRequest request);
  // Follows redirects; Authorization stays with the first origin.
  awaitable<Result<Call>> send_on(CallRequest request, std::string authorization);
  awaitable<Result<std::string>> answer_challenge(Wanted wanted, Challenge challenge);
  awaitable<Result<std::string>> fetch_token(Wanted wanted, Challenge challenge);
  [[nodiscard]] std::string token_key(const Wanted& wanted) const;

  boost::asio::any_io_executor executor_;
  RegistryOptions options_;
  std::unique_ptr<boost::asio::ssl::context> tls_;
  Error tls_error_;
  std::map<std::string, KeptToken> tokens_;
};

}  // namespace caisson::image
