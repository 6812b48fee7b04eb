#include "egress/credentials/authority.h"

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

namespace caisson::egress {
namespace {

using std::chrono::system_clock;

HostName host(const std::string& text) { return *HostName::parse(text); }

Authority make(std::vector<std::string> domains, Authority::Time now = system_clock::now()) {
  auto out = Authority::make("sb", std::move(domains), now);
  EXPECT_TRUE(out) << out.error().message;
  return std::move(*out);
}

std::shared_ptr<X509> certificate_of(const std::string& pem) {
  BIO* memory = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  std::shared_ptr<X509> out(PEM_read_bio_X509(memory, nullptr, nullptr, nullptr), X509_free);
  BIO_free(memory);
  return out;
}

struct Outcome {
  bool connected = false;
  long verified = X509_V_ERR_UNSPECIFIED;
  std::string protocol;
};

// A client that trusts `pem` and nothing else talks to the server's side, in memory.
Outcome handshake(SSL_CTX* server_side, const std::string& pem, const std::string& name,
                  const std::string& protocols = "") {
  const std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  const auto trusted = certificate_of(pem);
  X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), trusted.get());
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  const std::shared_ptr<SSL> client(SSL_new(context.get()), SSL_free);
  const std::shared_ptr<SSL> server(SSL_new(server_side), SSL_free);
  SSL_set1_host(client.get(), name.c_str());
  SSL_set_tlsext_host_name(client.get(), name.c_str());
  if (!protocols.empty()) {
    SSL_set_alpn_protos(client.get(), reinterpret_cast<const unsigned char*>(protocols.data()),
                        static_cast<unsigned>(protocols.size()));
  }
  BIO* left = nullptr;
  BIO* right = nullptr;
  BIO_new_bio_pair(&left, 0, &right, 0);
  SSL_set_bio(client.get(), left, left);
  SSL_set_bio(server.get(), right, right);
  SSL_set_connect_state(client.get());
  SSL_set_accept_state(server.get());
  Outcome out;
  for (int i = 0; i < 10; ++i) {
    const int a = SSL_do_handshake(client.get());
    const int b = SSL_do_handshake(server.get());
    if (a == 1 && b == 1) out.connected = true;
  }
  out.verified = SSL_get_verify_result(client.get());
  const unsigned char* chosen = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(client.get(), &chosen, &size);
  if (size != 0) out.protocol.assign(reinterpret_cast<const char*>(chosen), size);
  return out;
}

// --- what must not pass ---

TEST(Authority, IsForItsNamesOnly) {
  Authority authority = make({"api.example.com", "*.example.org"});
  for (const char* name :
       {"example.com", "evil.com", "a.api.example.com", "evilexample.org", "xapi.example.com"}) {
    const auto context = authority.context_for(host(name), system_clock::now());
    ASSERT_FALSE(context) << name;
    EXPECT_EQ(context.error().code, Errc::Denied);
  }
  EXPECT_EQ(authority.leaves(), 0U);
}

TEST(Authority, BadNamesAndTooManyAreRefused) {
  const auto now = system_clock::now();
  EXPECT_FALSE(Authority::make("sb", {}, now)) << "an authority for everything";
  for (const char* name : {"*.", "**", "10.0.0.1", "a,permitted;DNS:b", "a b", "a\nb", "", "[::1]"})
    EXPECT_FALSE(Authority::make("sb", {name}, now)) << name;
  EXPECT_FALSE(Authority::make("sb", std::vector<std::string>(kAuthorityNamesMax + 1, "a.b"), now));
}

TEST(Authority, IsNothingToAnotherSandbox) {
  Authority mine = make({"a.example"});
  const Authority other = make({"a.example"});
  const auto context = mine.context_for(host("a.example"), system_clock::now());
  ASSERT_TRUE(context);
  const Outcome outcome = handshake(context->get(), other.certificate_pem(), "a.example");
  EXPECT_FALSE(outcome.connected);
  EXPECT_NE(outcome.verified, X509_V_OK);
}

// Whoever is trusted for every name is still nothing to others, and still for no address.
TEST(Authority, EveryNameIsNoAddressAndNoOtherSandbox) {
  Authority mine = make({"a.example", "*"});
  EXPECT_EQ(mine.domains(), std::vector<std::string>{"*"});
  const Authority other = make({"*"});
  const auto context = mine.context_for(host("any.test"), system_clock::now());
  ASSERT_TRUE(context) << context.error().message;
  const Outcome stranger = handshake(context->get(), other.certificate_pem(), "any.test");
  EXPECT_FALSE(stranger.connected);
  EXPECT_NE(stranger.verified, X509_V_OK);
  for (const char* address : {"10.0.0.1", "127.1", "0x7f000001", "[::1]", "::1", "", "**", "a b"})
    EXPECT_FALSE(mine.covers(address)) << address;
  const auto certificate = certificate_of(mine.certificate_pem());
  std::unique_ptr<NAME_CONSTRAINTS, decltype(&NAME_CONSTRAINTS_free)> limits(
      static_cast<NAME_CONSTRAINTS*>(
          X509_get_ext_d2i(certificate.get(), NID_name_constraints, nullptr, nullptr)),
      &NAME_CONSTRAINTS_free);
  ASSERT_TRUE(limits);
  EXPECT_EQ(sk_GENERAL_SUBTREE_num(limits->permittedSubtrees), -1) << "none";
  EXPECT_EQ(sk_GENERAL_SUBTREE_num(limits->excludedSubtrees), 2) << "both kinds of address";
}

TEST(Authority, ALeafIsForOneName) {
  Authority authority = make({"*.example.org"});
  const auto context = authority.context_for(host("a.example.org"), system_clock::now());
  ASSERT_TRUE(context);
  EXPECT_EQ(handshake(context->get(), authority.certificate_pem(), "b.example.org").verified,
            X509_V_ERR_HOSTNAME_MISMATCH);
}

class AuthorityLeaves : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Domains, AuthorityLeaves, testing::Values("*.a.example", "*"));

TEST_P(AuthorityLeaves, AreBounded) {
  Authority authority = make({GetParam()});
  const auto now = system_clock::now();
  const auto first = authority.context_for(host("first.a.example"), now);
  const auto second = authority.context_for(host("second.a.example"), now);
  for (std::size_t i = 0; i < kLeavesMax - 1; ++i) {
    ASSERT_TRUE(authority.context_for(host("n" + std::to_string(i) + ".a.example"), now));
    EXPECT_EQ(authority.context_for(host("first.a.example"), now)->get(), first->get());
  }
  EXPECT_EQ(authority.leaves(), kLeavesMax);
  EXPECT_NE(authority.context_for(host("second.a.example"), now)->get(), second->get())
      << "the one not used for longest made room";
  EXPECT_EQ(authority.leaves(), kLeavesMax);
}

TEST(Authority, EndsWithItsTime) {
  const auto now = system_clock::now();
  Authority authority = make({"a.example"}, now);
  EXPECT_EQ(authority.expires(), now + kAuthorityLife);
  EXPECT_FALSE(authority.context_for(host("a.example"), authority.expires()));
  EXPECT_TRUE(authority.context_for(host("a.example"), now + kAuthorityLife / 2));
  // One that was made long ago is not believed today.
  Authority old = make({"a.example"}, now - kAuthorityLife - kClockSlack);
  const auto context = old.context_for(host("a.example"), now - kAuthorityLife);
  ASSERT_TRUE(context);
  EXPECT_FALSE(handshake(context->get(), old.certificate_pem(), "a.example").connected);
}

// --- what must ---

TEST(Authority, TheGuestBelievesIt) {
  Authority authority = make({"api.example.com", "*.example.org"});
  const std::string long_name = std::string(60, 'a') + '.' + std::string(60, 'b') + ".example.org";
  for (const std::string& name : {std::string("api.example.com"), std::string("x.y.example.org"),
                                  std::string("example.org"), long_name}) {
    const auto context = authority.context_for(host(name), system_clock::now());
    ASSERT_TRUE(context) << context.error().message;
    const Outcome outcome =
        handshake(context->get(), authority.certificate_pem(), name, "\x02h2\x08http/1.1");
    EXPECT_TRUE(outcome.connected) << name;
    EXPECT_EQ(outcome.verified, X509_V_OK) << X509_verify_cert_error_string(outcome.verified);
    EXPECT_EQ(outcome.protocol, "http/1.1");
  }
}

TEST(Authority, TheGuestBelievesItForEveryName) {
  Authority authority = make({"*"});
  for (const char* name : {"any.test", "x.y.example.org", "localhost"}) {
    const auto context = authority.context_for(host(name), system_clock::now());
    ASSERT_TRUE(context) << context.error().message;
    const Outcome outcome = handshake(context->get(), authority.certificate_pem(), name);
    EXPECT_EQ(outcome.verified, X509_V_OK) << X509_verify_cert_error_string(outcome.verified);
    EXPECT_TRUE(outcome.connected) << name;
  }
  for (const char* domain : {"*", "*.example", "a.example"})
    EXPECT_TRUE(authority.covers(domain)) << domain;
  const auto again =
      Authority::restore(authority.certificate_pem(), *authority.key(), authority.domains());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->covers("*"));
}

TEST(Authority, ItsCertificateSaysWhatItIsFor) {
  const Authority authority = make({"api.example.com"});
  const auto certificate = certificate_of(authority.certificate_pem());
  ASSERT_TRUE(certificate);
  EXPECT_EQ(X509_check_ca(certificate.get()), 1);
  EXPECT_EQ(X509_get_pathlen(certificate.get()), 0);
  const int at = X509_get_ext_by_NID(certificate.get(), NID_name_constraints, -1);
  ASSERT_GE(at, 0);
  EXPECT_EQ(X509_EXTENSION_get_critical(X509_get_ext(certificate.get(), at)), 1);
  EXPECT_EQ(X509_self_signed(certificate.get(), 1), 1);
  EXPECT_EQ(authority.certificate_pem().find("PRIVATE"), std::string::npos);
  const Authority other = make({"api.example.com"});
  EXPECT_NE(ASN1_INTEGER_cmp(X509_get0_serialNumber(certificate.get()),
                             X509_get0_serialNumber(certificate_of(other.certificate_pem()).get())),
            0);
}

TEST(Authority, ALeafIsKeptForHalfOfItsTime) {
  const auto now = system_clock::now();
  Authority authority = make({"a.example"}, now);
  const auto first = authority.context_for(host("a.example"), now);
  EXPECT_EQ(authority.context_for(host("a.example"), now + kLeafLife / 4)->get(), first->get());
  EXPECT_NE(authority.context_for(host("a.example"), now + kLeafLife * 3 / 4)->get(), first->get());
  EXPECT_EQ(authority.leaves(), 1U);
}

TEST(Authority, IsTheSameAfterARestart) {
  const std::vector<std::string> domains = {"api.example", "*.deep.example"};
  Authority first = make(domains);
  const auto key = first.key();
  ASSERT_TRUE(key);
  Authority other = make(domains);
  EXPECT_EQ(Authority::restore(other.certificate_pem(), *key, domains).error().code, Errc::Denied);
  EXPECT_EQ(Authority::restore("-----BEGIN", *key, domains).error().code, Errc::Denied);
  const auto nonsense = Secret::copy_of("nonsense");
  EXPECT_FALSE(Authority::restore(first.certificate_pem(), *nonsense, domains));
  auto again = Authority::restore(first.certificate_pem(), *key, domains);
  ASSERT_TRUE(again) << again.error().message;
  const auto leaf = again->context_for(host("api.example"), system_clock::now());
  ASSERT_TRUE(leaf) << leaf.error().message;
  const Outcome outcome = handshake(leaf->get(), first.certificate_pem(), "api.example");
  EXPECT_TRUE(outcome.connected);
  EXPECT_EQ(outcome.verified, X509_V_OK);
  EXPECT_LE(again->expires(), first.expires());
  EXPECT_GT(again->expires(), first.expires() - std::chrono::seconds(2));
}

TEST(Authority, KnowsWhichRulesItCovers) {
  const Authority authority = make({"api.example", "*.deep.example"});
  EXPECT_TRUE(authority.covers("api.example"));
  EXPECT_TRUE(authority.covers("*.deep.example"));
  EXPECT_TRUE(authority.covers("a.deep.example"));
  EXPECT_TRUE(authority.covers("*.a.deep.example"));
  EXPECT_FALSE(authority.covers("*.api.example"));
  EXPECT_FALSE(authority.covers("b.api.example"));
  EXPECT_FALSE(authority.covers("xdeep.example"));
  EXPECT_FALSE(authority.covers("*.example"));
  EXPECT_FALSE(authority.covers("*"));
}

}  // namespace
}  // namespace caisson::egress
