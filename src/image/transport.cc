#include "image/transport.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "base/base64.h"

namespace caisson::image {

namespace asio = boost::asio;

namespace {

// Docker's default registry is served and guarded by hosts of other names.
constexpr std::string_view kDefaultHost = "registry-1.docker.io";
constexpr std::string_view kDefaultTokenHost = "auth.docker.io";

bool is_redirect(unsigned status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

seconds parse_retry_after(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size()) return seconds(0);
  return seconds(std::min<std::uint64_t>(value, kRetryAfterMax.count()));
}

std::string basic(const Login& login) {
  return "Basic " + to_base64(login.user + ":" + login.password);
}

// What a status other than 200 and 206 means to whoever wanted the thing.
Error meaning(unsigned status, const Wanted& wanted) {
  const std::string what =
      fmt::format("{}/{}: {}", wanted.endpoint.name, wanted.repository, wanted.path);
  const bool known = !wanted.login.empty();
  if (status == 404)
    return {Errc::NotFound, fmt::format("{}: the registry has no such thing", what)};
  if (status == 401) {
    return {Errc::Unauthenticated,
            known ? fmt::format("{}: the registry does not accept the credentials", what)
                  : fmt::format("{}: no such image, or the registry wants credentials", what)};
  }
  if (status == 403) return {Errc::Denied, fmt::format("{}: the registry says no", what)};
  if (status == 416) return {Errc::TooLarge, fmt::format("{}: no such range", what)};
  if (status == 408 || status == 429 || status >= 500) {
    return {Errc::Busy, fmt::format("{}: the registry answered {}", what, status)};
  }
  return {Errc::Protocol, fmt::format("{}: the registry answered {}", what, status)};
}

}  // namespace

Transport::Transport(asio::any_io_executor executor, RegistryOptions options)
    : executor_(std::move(executor)), options_(std::move(options)) {
  auto context = make_tls_context(options_.extra_ca_file);
  if (context) {
    tls_ = std::move(*context);
  } else {
    tls_error_ = context.error();
  }
}

Result<std::vector<Endpoint>> Transport::endpoints(const std::string& registry) const {
  std::vector<Endpoint> out;
  const auto mirrors = options_.mirrors.find(registry);
  if (mirrors != options_.mirrors.end()) {
    for (const std::string& text : mirrors->second.urls) {
      auto url = Url::parse(text);
      if (!url) return bad_field("mirrors", url.error().message);
      if (!url->target.ends_with('/')) url->target += '/';
      out.push_back({*url, url->authority()});
    }
    if (mirrors->second.only) {
      if (out.empty()) return bad_field("mirrors", fmt::format("{} has none", registry));
      return out;
    }
  }
  const bool is_default = registry == kDefaultRegistry;
  Url url = TRY(Url::parse("https://" + (is_default ? std::string(kDefaultHost) : registry) + "/"));
  const bool listed = std::ranges::count(options_.insecure, registry) > 0;
  if (listed || (options_.loopback_http && url.names_loopback())) {
    url = TRY(Url::parse("http://" + registry + "/"));
  }
  out.push_back({url, registry});
  return out;
}

Result<void> Transport::check_scheme(const Url& url) const {
  if (url.tls) return {};
  if (options_.loopback_http && url.names_loopback()) return {};
  const std::string with_port = fmt::format("{}:{}", url.host, url.port);
  const auto names_it = [&](const std::string& one) {
    return one == url.authority() || one == with_port;
  };
  if (std::ranges::any_of(options_.insecure, names_it)) return {};
  return failure(Errc::Denied, fmt::format("{} is spoken to without TLS only if it is listed as "
                                           "insecure",
                                           url.authority()));
}

Result<void> Transport::check_realm(const Endpoint& endpoint, const Url& realm) const {
  TRY(check_scheme(realm));
  if (realm.host == endpoint.base.host) {
    if (endpoint.base.tls && !realm.tls) {
      return failure(Errc::Denied,
                     fmt::format("the token service of {} is without TLS", endpoint.name));
    }
    return {};
  }
  if (endpoint.name == kDefaultRegistry && realm.host == kDefaultTokenHost && realm.tls) return {};
  const auto listed = options_.realms.find(endpoint.name);
  if (listed != options_.realms.end()) {
    for (const std::string& host : listed->second) {
      if (host == realm.host || host == realm.authority()) return {};
    }
  }
  return failure(Errc::Denied, fmt::format("{} sends us to the token service of another host, {}; "
                                           "list it under realms if that is right",
                                           endpoint.name, realm.authority()));
}

awaitable<Result<Call>> Transport::send(CallRequest request) {
  if (!tls_) co_return std::unexpected(tls_error_);
  const auto allowed = check_scheme(request.url);
  if (!allowed) co_return std::unexpected(allowed.error());
  auto link = co_await Link::connect(executor_, *tls_, options_, request.url);
  if (!link) co_return std::unexpected(link.error());
  co_return co_await HttpCall::send(std::move(*link), std::move(request));
}

awaitable<Result<Call>> Transport::send_on(CallRequest request, std::string authorization) {
  const Url first = request.url;
  for (unsigned redirects = 0; redirects <= kRedirectsMax; ++redirects) {
    CallRequest next = request;
    if (!authorization.empty() && request.url.same_origin(first)) {
      next.fields.emplace_back("Authorization", authorization);
    }
    auto call = co_await send(std::move(next));
    if (!call || !is_redirect((*call)->status())) co_return call;
    auto to = request.url.follow((*call)->field("Location"));
    if (!to) co_return std::unexpected(to.error().within("redirect"));
    if (request.url.tls && !to->tls) {
      co_return failure(Errc::Denied, fmt::format("{} redirects from https to http, to {}",
                                                  request.url.authority(), to->authority()));
    }
    request.url = std::move(*to);
  }
  co_return failure(Errc::Protocol, fmt::format("{} redirects more than {} times",
                                                first.authority(), kRedirectsMax));
}

std::string Transport::token_key(const Wanted& wanted) const {
  // Of the secret only a digest is kept, so that a changed password is another key.
  const Login& login = wanted.login;
  const Digest who = digest_of(login.user + "\n" + login.password + "\n" + login.identity_token);
  return fmt::format("{} {} {}", wanted.endpoint.name, wanted.repository, who.str());
}

awaitable<Result<std::string>> Transport::fetch_token(Wanted wanted, Challenge challenge) {
  auto realm = Url::parse(challenge.realm);
  if (!realm) co_return std::unexpected(realm.error().within("token service"));
  const auto allowed = check_realm(wanted.endpoint, *realm);
  if (!allowed) co_return std::unexpected(allowed.error());
  // The scope is ours: a registry does not choose what we ask its token service for.
  const std::string query =
      fmt::format("service={}&scope={}", percent_encode(challenge.service),
                  percent_encode("repository:" + wanted.repository + ":pull"));
  CallRequest request;
  request.fields.emplace_back("Accept", "application/json");
  if (!wanted.login.identity_token.empty()) {
    request.method = "POST";
    request.fields.emplace_back("Content-Type", "application/x-www-form-urlencoded");
    request.body = query + "&grant_type=refresh_token&client_id=caisson&refresh_token=" +
                   percent_encode(wanted.login.identity_token);
  } else {
    if (!wanted.login.empty()) request.fields.emplace_back("Authorization", basic(wanted.login));
    realm->target += (realm->target.find('?') == std::string::npos ? "?" : "&") + query;
  }
  request.url = *realm;
  auto call = co_await send(std::move(request));  // no redirects: it is where it said it is
  if (!call) co_return std::unexpected(call.error());
  const unsigned status = (*call)->status();
  if (status != 200) {
    const bool later = status == 408 || status == 429 || status >= 500;
    co_return failure(
        later ? Errc::Busy : Errc::Unauthenticated,
        fmt::format("{}: its token service answered {}", wanted.endpoint.name, status));
  }
  const auto body = co_await (*call)->read_all(kTokenBytesMax);
  if (!body) co_return std::unexpected(body.error());
  auto token = parse_token(*body);
  if (!token) co_return std::unexpected(token.error());
  if (tokens_.size() >= kTokensMax) tokens_.clear();
  const seconds margin = std::min(token->lifetime / 10, seconds(30));
  tokens_[token_key(wanted)] = {token->text, Clock::now() + token->lifetime - margin};
  co_return token->text;
}

awaitable<Result<std::string>> Transport::answer_challenge(Wanted wanted, Challenge challenge) {
  if (challenge.scheme == Challenge::Scheme::Basic) {
    if (wanted.login.user.empty()) co_return std::unexpected(meaning(401, wanted));
    co_return basic(wanted.login);
  }
  auto token = co_await fetch_token(std::move(wanted), std::move(challenge));
  if (!token) co_return std::unexpected(token.error());
  co_return "Bearer " + *token;
}

awaitable<Result<Call>> Transport::get(Wanted wanted, seconds& retry_after) {
  retry_after = seconds(0);
  CallRequest request;
  request.url = wanted.endpoint.base;
  request.url.target += fmt::format("v2/{}/{}", wanted.repository, wanted.path);
  request.fields = wanted.fields;
  std::string authorization;
  const auto kept = tokens_.find(token_key(wanted));
  if (kept != tokens_.end()) {
    if (kept->second.until > Clock::now()) {
      authorization = "Bearer " + kept->second.text;
    } else {
      tokens_.erase(kept);
    }
  }
  for (int round = 0;; ++round) {
    auto call = co_await send_on(request, authorization);
    if (!call) co_return std::unexpected(call.error());
    const unsigned status = (*call)->status();
    if (status == 200 || status == 206) co_return call;
    if (status != 401 || round > 0) {
      retry_after = parse_retry_after((*call)->field("Retry-After"));
      co_return std::unexpected(meaning(status, wanted));
    }
    tokens_.erase(token_key(wanted));
    auto challenge = parse_challenge((*call)->fields("WWW-Authenticate"));
    if (!challenge) co_return std::unexpected(challenge.error());
    call->reset();
    auto answer = co_await answer_challenge(wanted, std::move(*challenge));
    if (!answer) co_return std::unexpected(answer.error());
    authorization = std::move(*answer);
  }
}

}  // namespace caisson::image
