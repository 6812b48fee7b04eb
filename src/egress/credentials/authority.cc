#include "egress/credentials/authority.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "egress/credentials/secret.h"
#include "policy/capability.h"
#include "policy/host_name.h"
#include "policy/wording.h"

namespace caisson::egress {

namespace {

template <auto free>
struct Free {
  template <class T>
  void operator()(T* object) const noexcept {
    free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;  // clears what it held
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>>;
using Number = std::unique_ptr<BIGNUM, Free<BN_free>>;
using Memory = std::unique_ptr<BIO, Free<BIO_free>>;

constexpr int kSerialBits = 127;
constexpr std::size_t kCommonNameBytesMax = 64;

std::unexpected<Error> broken(std::string_view what) {
  std::array<char, 160> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return failure(Errc::Internal, fmt::format("{}: {}", what, text.data()));
}

Result<Key> new_key() {
  Key key(EVP_EC_gen("P-256"));
  if (!key) return broken("make a key");
  return key;
}

time_t seconds_of(Authority::Time time) { return std::chrono::system_clock::to_time_t(time); }

// What both kinds of certificate have in common.
Result<Certificate> begin_certificate(EVP_PKEY* key, Authority::Time from, Authority::Time until) {
  Certificate out(X509_new());
  const Number serial(BN_new());
  const bool done = out && serial && X509_set_version(out.get(), X509_VERSION_3) == 1 &&
                    BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
                    BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(out.get())) != nullptr &&
                    ASN1_TIME_set(X509_getm_notBefore(out.get()), seconds_of(from)) != nullptr &&
                    ASN1_TIME_set(X509_getm_notAfter(out.get()), seconds_of(until)) != nullptr &&
                    X509_set_pubkey(out.get(), key) == 1;
  if (!done) return broken("begin a certificate");
  return out;
}

Result<void> add_name(X509_NAME* name, std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  if (X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_ASC, bytes,
                                 static_cast<int>(text.size()), -1, 0) != 1) {
    return broken("name a certificate");
  }
  return {};
}

// `value` is made of our own words and of canonical names: nothing in it can be a second extension.
Result<void> extend(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context{};
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_nconf_nid(nullptr, &context, kind, value.c_str()));
  if (!extension || X509_add_ext(certificate, extension.get(), -1) != 1)
    return broken("extend a certificate");
  return {};
}

std::string_view without_star(std::string_view domain) {
  return domain.starts_with("*.") ? domain.substr(2) : domain;
}

bool is_every_name(std::string_view domain) { return domain == policy::kEveryName; }

// A name that is permitted permits everything below it: X.509 cannot say less. What exactly is let
// through is decided elsewhere. Where no name is permitted, each is.
std::string constraints_of(const std::vector<std::string>& domains) {
  std::string out = "critical";
  for (const std::string& domain : domains) {
    if (!is_every_name(domain)) out += fmt::format(",permitted;DNS:{}", without_star(domain));
  }
  return out + ",excluded;IP:0.0.0.0/0.0.0.0,excluded;IP:0:0:0:0:0:0:0:0/0:0:0:0:0:0:0:0";
}

Result<std::string> pem_of(X509* certificate) {
  const Memory memory(BIO_new(BIO_s_mem()));
  if (!memory || PEM_write_bio_X509(memory.get(), certificate) != 1)
    return broken("write a certificate");
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &data);
  return std::string(data, static_cast<std::size_t>(size));
}

// `text` is canonical.
bool covers_name(const std::string& domain, std::string_view text) {
  if (is_every_name(domain)) return true;
  const std::string_view name = without_star(domain);
  return text == name || (domain.starts_with("*.") && text.size() > name.size() + 1 &&
                          text.ends_with(name) && text[text.size() - name.size() - 1] == '.');
}

// We pass on HTTP/1.1, so nothing else is offered; who insists on another gets no answer to that.
int choose_protocol(SSL* /*ssl*/, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* in, unsigned in_size, void* /*unused*/) {
  static constexpr std::array<unsigned char, 9> kHttp1 = {8,   'h', 't', 't', 'p',
                                                          '/', '1', '.', '1'};
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_size, kHttp1.data(), kHttp1.size(), in, in_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

Result<std::shared_ptr<SSL_CTX>> server_context(X509* certificate, EVP_PKEY* key) {
  std::shared_ptr<SSL_CTX> out(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (!out) return broken("begin TLS");
  // No tickets, no cache: nothing of a connection outlives it.
  SSL_CTX_set_options(out.get(),
                      SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_session_cache_mode(out.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(out.get(), SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(out.get(), choose_protocol, nullptr);
  if (SSL_CTX_set_min_proto_version(out.get(), TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_num_tickets(out.get(), 0) != 1 ||
      SSL_CTX_use_certificate(out.get(), certificate) != 1 ||
      SSL_CTX_use_PrivateKey(out.get(), key) != 1 || SSL_CTX_check_private_key(out.get()) != 1) {
    return broken("prepare TLS");
  }
  return out;
}

Result<std::vector<std::string>> canonical_domains(std::vector<std::string> domains) {
  if (domains.empty())
    return failure(Errc::InvalidArgument, "an authority needs the names that it is for");
  if (domains.size() > kAuthorityNamesMax) {
    return failure(Errc::Exhausted, fmt::format("an authority is for at most {} names, not for {}",
                                                kAuthorityNamesMax, domains.size()));
  }
  if (std::ranges::any_of(domains, is_every_name))
    return std::vector{std::string(policy::kEveryName)};
  for (std::string& domain : domains) domain = TRY(policy::canonical_rule_domain(domain));
  return domains;
}

}  // namespace

struct Authority::Keys {
  Key own;
  Key leaves;  // one for all: they are in the same hands
  Certificate certificate;
};

Authority::Authority() = default;
Authority::Authority(Authority&&) noexcept = default;
Authority& Authority::operator=(Authority&&) noexcept = default;
Authority::~Authority() = default;

Result<Authority> Authority::make(const std::string& sandbox, std::vector<std::string> domains,
                                  Time now) {
  domains = TRY(canonical_domains(std::move(domains)));
  TRY(lock_secret_memory());
  Authority out;
  out.keys_ = std::make_unique<Keys>();
  out.keys_->own = TRY(new_key());
  out.keys_->leaves = TRY(new_key());
  out.domains_ = std::move(domains);
  out.expires_ = now + kAuthorityLife;
  Certificate root = TRY(begin_certificate(out.keys_->own.get(), now - kClockSlack, out.expires_));
  X509* raw = root.get();
  const std::string name = "caisson sandbox " + policy::printable(sandbox);
  TRY(add_name(X509_get_subject_name(raw), std::string_view(name).substr(0, kCommonNameBytesMax)));
  if (X509_set_issuer_name(raw, X509_get_subject_name(raw)) != 1)
    return broken("name a certificate");
  TRY(extend(raw, raw, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  TRY(extend(raw, raw, NID_key_usage, "critical,keyCertSign,cRLSign"));
  TRY(extend(raw, raw, NID_subject_key_identifier, "hash"));
  TRY(extend(raw, raw, NID_name_constraints, constraints_of(out.domains_)));
  if (X509_sign(raw, out.keys_->own.get(), EVP_sha256()) == 0) return broken("sign a certificate");
  out.pem_ = TRY(pem_of(raw));
  out.keys_->certificate = std::move(root);
  return out;
}

Result<Authority> Authority::restore(const std::string& certificate_pem, const Secret& key,
                                     std::vector<std::string> domains) {
  TRY(lock_secret_memory());
  const std::string_view bytes = key.expose();
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  Authority out;
  out.keys_ = std::make_unique<Keys>();
  out.keys_->own.reset(d2i_AutoPrivateKey(nullptr, &at, static_cast<long>(bytes.size())));
  const Memory memory(
      BIO_new_mem_buf(certificate_pem.data(), static_cast<int>(certificate_pem.size())));
  if (memory)
    out.keys_->certificate.reset(PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr));
  tm end{};
  const bool good =
      out.keys_->own && out.keys_->certificate &&
      X509_check_private_key(out.keys_->certificate.get(), out.keys_->own.get()) == 1 &&
      ASN1_TIME_to_tm(X509_get0_notAfter(out.keys_->certificate.get()), &end) == 1;
  ERR_clear_error();
  if (!good)
    return failure(Errc::Denied, "the sandbox's authority: its key is not its certificate's");
  out.keys_->leaves = TRY(new_key());
  out.domains_ = std::move(domains);
  out.pem_ = certificate_pem;
  out.expires_ = std::chrono::system_clock::from_time_t(timegm(&end));
  return out;
}

Result<Secret> Authority::key() const {
  unsigned char* bytes = nullptr;
  const int size = i2d_PrivateKey(keys_->own.get(), &bytes);
  if (size <= 0) return broken("write a key");
  auto out =
      Secret::copy_of({reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)});
  OPENSSL_clear_free(bytes, static_cast<std::size_t>(size));
  return out;
}

bool Authority::covers(std::string_view domain) const {
  // A name, and no address.
  if (!is_every_name(domain) && !policy::canonical_rule_domain(domain)) return false;
  const bool wild = domain.starts_with("*.");
  return std::ranges::any_of(domains_, [&](const std::string& own) {
    if (is_every_name(own)) return true;
    if (is_every_name(domain) || (wild && !own.starts_with("*."))) return false;
    return covers_name(own, wild ? domain.substr(2) : domain);
  });
}

Result<std::shared_ptr<SSL_CTX>> Authority::make_leaf(const HostName& host, Time now,
                                                      Time until) const {
  X509* issuer = keys_->certificate.get();
  const Certificate leaf = TRY(begin_certificate(keys_->leaves.get(), now - kClockSlack, until));
  // The name stands in the extension; the old place has room for 64 bytes only.
  const bool named = host.text().size() <= kCommonNameBytesMax;
  if (named) TRY(add_name(X509_get_subject_name(leaf.get()), host.text()));
  if (X509_set_issuer_name(leaf.get(), X509_get_subject_name(issuer)) != 1)
    return broken("name a certificate");
  TRY(extend(leaf.get(), issuer, NID_basic_constraints, "critical,CA:FALSE"));
  TRY(extend(leaf.get(), issuer, NID_key_usage, "critical,digitalSignature"));
  TRY(extend(leaf.get(), issuer, NID_ext_key_usage, "serverAuth"));
  TRY(extend(leaf.get(), issuer, NID_subject_alt_name,
             fmt::format("{}DNS:{}", named ? "" : "critical,", host.text())));
  TRY(extend(leaf.get(), issuer, NID_subject_key_identifier, "hash"));
  TRY(extend(leaf.get(), issuer, NID_authority_key_identifier, "keyid:always"));
  if (X509_sign(leaf.get(), keys_->own.get(), EVP_sha256()) == 0)
    return broken("sign a certificate");
  return server_context(leaf.get(), keys_->leaves.get());
}

Result<std::shared_ptr<SSL_CTX>> Authority::context_for(const HostName& host, Time now) {
  ++uses_;
  const auto known = leaves_.find(host.text());
  if (known != leaves_.end() && now < known->second.renew) {
    known->second.used = uses_;
    return known->second.context;
  }
  const auto covers = [&host](const std::string& domain) {
    return covers_name(domain, host.text());
  };
  if (!std::ranges::any_of(domains_, covers)) {
    return failure(Errc::Denied, fmt::format("the sandbox's authority is not for {}",
                                             policy::in_quotes(host.text())));
  }
  const Time until = std::min<Time>(now + kLeafLife, expires_);
  if (until <= now)
    return failure(Errc::Denied, "the sandbox's authority has expired; start a new sandbox");
  std::shared_ptr<SSL_CTX> made = TRY(make_leaf(host, now, until));
  if (known == leaves_.end() && leaves_.size() >= kLeavesMax) {
    leaves_.erase(
        std::ranges::min_element(leaves_, {}, [](const auto& one) { return one.second.used; }));
  }
  // Renewed at half of its time, so that no long connection starts with one that is about to end.
  leaves_.insert_or_assign(host.text(), Leaf{made, now + (until - now) / 2, uses_});
  return made;
}

}  // namespace caisson::egress
