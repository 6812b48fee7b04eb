#include "image/registry.h"

#include <fmt/core.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>

#include "image/blob_store.h"
#include "image/transport.h"
#include "sys/file.h"

namespace caisson::image {

namespace asio = boost::asio;

namespace {

constexpr unsigned kResumesMax = 32;  // of one blob, each of which brought something
constexpr milliseconds kDelayMax{15000};

bool is_transient(const Error& error) {
  return error.code == Errc::Busy || error.code == Errc::Gone || error.code == Errc::TimedOut;
}

std::string accept_list() {
  return fmt::format("{}, {}, {}, {}", kOciManifestType, kDockerManifestType, kOciIndexType,
                     kDockerListType);
}

// Half of the delay is sure and half is chance: many clients do not come back at once.
milliseconds delay_before(const RegistryOptions& options, unsigned failures, seconds retry_after) {
  if (retry_after > seconds(0)) return retry_after;
  auto full = options.retry_delay;
  for (unsigned i = 1; i < failures && full < kDelayMax; ++i) full *= 2;
  full = std::min(full, kDelayMax);
  std::uint16_t chance = 0;
  if (!sys::random_bytes(std::as_writable_bytes(std::span(&chance, 1)))) chance = 0;
  return full / 2 + full * chance / (2 * 65536);
}

// False when cancelled meanwhile.
awaitable<bool> pause(milliseconds time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  boost::system::error_code ec;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ec));
  co_return !ec;
}

awaitable<bool> cancelled() {
  const auto state = co_await asio::this_coro::cancellation_state;
  co_return state.cancelled() != asio::cancellation_type::none;
}

// "bytes 100-199/200": does it begin at `offset`, and end with the blob?
bool is_range(std::string_view text, std::uint64_t offset, std::uint64_t size) {
  const std::string head = fmt::format("bytes {}-{}/", offset, size - 1);
  if (!text.starts_with(head)) return false;
  text.remove_prefix(head.size());
  return text == "*" || text == std::to_string(size);
}

Result<void> check_digest(const FetchedManifest& got, const std::string& said,
                          const std::optional<Digest>& want) {
  if (want) {
    const Digest found = digest_of(got.text, want->algorithm());
    if (found != *want) {
      return failure(Errc::Protocol, fmt::format("the manifest {} is not what its digest says: it "
                                                 "is {}",
                                                 want->str(), found.str()));
    }
  }
  if (said.empty()) return {};
  const Digest claimed = TRY_IN("Docker-Content-Digest", Digest::parse(said));
  if (digest_of(got.text, claimed.algorithm()) != claimed) {
    return failure(Errc::Protocol,
                   fmt::format("the registry says that the manifest is {}, and it is {}",
                               claimed.str(), digest_of(got.text, claimed.algorithm()).str()));
  }
  return {};
}

}  // namespace

struct Registry::Core {
  Core(asio::any_io_executor executor, RegistryOptions options)
      : transport(std::move(executor), std::move(options)) {}
  Transport transport;

  // One try each, at one endpoint.
  awaitable<Result<FetchedManifest>> manifest_once(Wanted wanted, std::optional<Digest> want,
                                                   seconds& retry_after);
  awaitable<Result<void>> blob_once(Wanted wanted, Descriptor descriptor, BlobTarget& target,
                                    seconds& retry_after);
  // With retries.
  awaitable<Result<FetchedManifest>> manifest_at(Wanted wanted, std::optional<Digest> want);
  awaitable<Result<void>> blob_at(Wanted wanted, Descriptor descriptor, BlobTarget& target);
  awaitable<Result<FetchedManifest>> manifest(Reference reference, std::optional<Digest> want,
                                              Credentials credentials);
};

awaitable<Result<FetchedManifest>> Registry::Core::manifest_once(Wanted wanted,
                                                                 std::optional<Digest> want,
                                                                 seconds& retry_after) {
  auto call = co_await transport.get(std::move(wanted), retry_after);
  if (!call) co_return std::unexpected(call.error());
  if ((*call)->status() != 200) {
    co_return failure(Errc::Protocol, "the registry sent a part of a manifest");
  }
  FetchedManifest out;
  out.media_type = (*call)->field("Content-Type");
  const std::string said = (*call)->field("Docker-Content-Digest");
  auto text = co_await (*call)->read_all(kManifestBytesMax);
  if (!text) co_return std::unexpected(text.error());
  out.text = std::move(*text);
  const auto checked = check_digest(out, said, want);
  if (!checked) co_return std::unexpected(checked.error());
  out.digest = want ? *want : digest_of(out.text);
  co_return out;
}

awaitable<Result<void>> Registry::Core::blob_once(Wanted wanted, Descriptor descriptor,
                                                  BlobTarget& target, seconds& retry_after) {
  const std::uint64_t from = target.offset();
  if (from > 0) wanted.fields.emplace_back("Range", fmt::format("bytes={}-", from));
  auto call = co_await transport.get(std::move(wanted), retry_after);
  if (!call) co_return std::unexpected(call.error());
  std::uint64_t at = from;
  if ((*call)->status() == 206) {
    if (!is_range((*call)->field("Content-Range"), from, descriptor.size)) {
      co_return failure(Errc::Protocol, "the registry sent another part than the one asked for");
    }
  } else if (from > 0) {
    const auto anew = target.restart();
    if (!anew) co_return std::unexpected(anew.error());
    at = 0;
  }
  const auto length = (*call)->length();
  if (length && *length != descriptor.size - at) {
    co_return failure(Errc::Protocol,
                      fmt::format("the registry says that {} more bytes of the blob {} follow, and "
                                  "by the manifest there are {}",
                                  *length, descriptor.digest.str(), descriptor.size - at));
  }
  std::vector<std::byte> piece(kCopyBytes);
  for (;;) {
    const auto got = co_await (*call)->read(piece);
    if (!got) co_return std::unexpected(got.error());
    if (*got == 0) break;
    if (*got > descriptor.size - at) {
      co_return failure(Errc::Protocol, fmt::format("the blob {} is longer than the {} bytes of "
                                                    "the manifest",
                                                    descriptor.digest.str(), descriptor.size));
    }
    const auto written = target.write(std::span(piece).first(*got));
    if (!written) co_return std::unexpected(written.error());
    at += *got;
  }
  if (at < descriptor.size) {
    co_return failure(Errc::Gone, fmt::format("the blob {} ended after {} of {} bytes",
                                              descriptor.digest.str(), at, descriptor.size));
  }
  co_return Result<void>();
}

awaitable<Result<FetchedManifest>> Registry::Core::manifest_at(Wanted wanted,
                                                               std::optional<Digest> want) {
  for (unsigned failures = 0;;) {
    seconds retry_after{0};
    auto got = co_await manifest_once(wanted, want, retry_after);
    if (got || !is_transient(got.error()) || co_await cancelled()) co_return got;
    if (++failures >= transport.options().attempts_max) co_return got;
    if (!co_await pause(delay_before(transport.options(), failures, retry_after))) co_return got;
  }
}

awaitable<Result<void>> Registry::Core::blob_at(Wanted wanted, Descriptor descriptor,
                                                BlobTarget& target) {
  unsigned failures = 0;
  bool began_anew = false;
  for (unsigned resumes = 0; resumes < kResumesMax; ++resumes) {
    const std::uint64_t before = target.offset();
    if (before == descriptor.size) co_return Result<void>();
    seconds retry_after{0};
    auto done = co_await blob_once(wanted, descriptor, target, retry_after);
    if (done) co_return done;
    // A registry that cannot continue there (416), once: from the first byte.
    if (done.error().code == Errc::TooLarge && before > 0 && !began_anew) {
      began_anew = true;
      const auto anew = target.restart();
      if (!anew) co_return std::unexpected(anew.error());
      continue;
    }
    if (!is_transient(done.error()) || co_await cancelled()) co_return done;
    failures = target.offset() > before ? 1 : failures + 1;
    if (failures >= transport.options().attempts_max) co_return done;
    if (!co_await pause(delay_before(transport.options(), failures, retry_after))) co_return done;
  }
  co_return failure(Errc::TimedOut, fmt::format("the blob {} was cut off more than {} times",
                                                descriptor.digest.str(), kResumesMax));
}

awaitable<Result<FetchedManifest>> Registry::Core::manifest(Reference reference,
                                                            std::optional<Digest> want,
                                                            Credentials credentials) {
  const auto endpoints = transport.endpoints(reference.registry());
  if (!endpoints) co_return std::unexpected(endpoints.error());
  Error last;
  for (const Endpoint& endpoint : *endpoints) {
    Wanted wanted{endpoint,
                  reference.repository(),
                  "manifests/" + (want ? want->str() : reference.tag()),
                  {{"Accept", accept_list()}},
                  credentials.find(endpoint.name)};
    auto got = co_await manifest_at(std::move(wanted), want);
    if (got || co_await cancelled()) co_return got;
    last = got.error();
  }
  co_return std::unexpected(last);
}

Registry::Registry(asio::any_io_executor executor, RegistryOptions options)
    : core_(std::make_shared<Core>(std::move(executor), std::move(options))) {}
Registry::~Registry() = default;

awaitable<Result<FetchedManifest>> Registry::manifest(Reference reference,
                                                      Credentials credentials) {
  std::optional<Digest> want = reference.digest();
  co_return co_await core_->manifest(std::move(reference), std::move(want), std::move(credentials));
}

awaitable<Result<FetchedManifest>> Registry::manifest(Reference reference, Digest digest,
                                                      Credentials credentials) {
  std::optional<Digest> want = std::move(digest);
  co_return co_await core_->manifest(std::move(reference), std::move(want), std::move(credentials));
}

awaitable<Result<void>> Registry::blob(Reference reference, Descriptor descriptor,
                                       Credentials credentials, BlobTarget target) {
  const auto endpoints = core_->transport.endpoints(reference.registry());
  if (!endpoints) co_return std::unexpected(endpoints.error());
  Error last;
  for (const Endpoint& endpoint : *endpoints) {
    Wanted wanted{endpoint,
                  reference.repository(),
                  "blobs/" + descriptor.digest.str(),
                  {},
                  credentials.find(endpoint.name)};
    auto done = co_await core_->blob_at(std::move(wanted), descriptor, target);
    // A full disk is full for the next one, too.
    if (done || done.error().code == Errc::StoreFull || co_await cancelled()) co_return done;
    last = done.error();
  }
  co_return std::unexpected(last);
}

}  // namespace caisson::image
