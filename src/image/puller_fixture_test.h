// image/puller_fixture_test.h — for tests: a puller with a store, and a registry to lie to it.
#pragma once

#include "image/puller.h"
#include "image/registry_fake_test.h"
#include "image/run_test.h"
#include "sys/temp_dir_test.h"

namespace caisson::image::test {

class PullerFixture : public testing::Test {
 protected:
  PullerFixture() {
    auto opened = BlobStore::open(dir_.path("store"));
    EXPECT_TRUE(opened);
    store_ = std::move(*opened);
    options_.judge = [this](const asio::ip::address& address, std::string_view host,
                            std::uint16_t port) -> Result<void> {
      judged_.push_back(fmt::format("{} {} {}", address.to_string(), host, port));
      if (address.is_loopback()) return {};
      return failure(Errc::Denied, address.to_string() + " is not outside");
    };
    options_.loopback_http = true;
    options_.retry_delay = milliseconds(2);
    options_.stall_timeout = milliseconds(400);
    options_.connect_timeout = milliseconds(1000);
  }

  [[nodiscard]] Reference reference(const std::string& tail = "app:1") const {
    return *Reference::parse(registry_.host() + "/" + tail);
  }
  Puller& puller() {
    if (!puller_) puller_ = std::make_unique<Puller>(io_.get_executor(), *store_, options_);
    return *puller_;
  }
  Result<PulledImage> pull(const std::string& tail = "app:1") {
    PullRequest request;
    request.reference = reference(tail);
    request.credentials = credentials_;
    return run(io_, puller().pull(std::move(request)));
  }
  // The answer that the fake would give, with one byte changed.
  static std::string flipped(std::string text) {
    text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
    return text;
  }

  sys::TempDir dir_;
  asio::io_context io_;
  FakeRegistry registry_{io_};
  RegistryOptions options_;
  Credentials credentials_;
  std::vector<std::string> judged_;
  std::unique_ptr<BlobStore> store_;
  std::unique_ptr<Puller> puller_;
};

}  // namespace caisson::image::test
