// egress/gate/certificate_test.h — for tests: hosts that speak TLS.
#pragma once

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

namespace caisson::egress::test {

// A certificate for one name, signed by itself, and the file that trusts it.
class Certificate {
 public:
  explicit Certificate(const std::string& name)
      : key(::EVP_EC_gen("P-256"), &::EVP_PKEY_free), cert(::X509_new(), &::X509_free) {
    // OpenSSL's own writes to a socket raise it when the peer has left.
    ::signal(SIGPIPE, SIG_IGN);
    ::X509_set_version(cert.get(), 2);
    ::ASN1_INTEGER_set(::X509_get_serialNumber(cert.get()), 1);
    ::X509_gmtime_adj(::X509_getm_notBefore(cert.get()), -3600);
    ::X509_gmtime_adj(::X509_getm_notAfter(cert.get()), 3600);
    ::X509_set_pubkey(cert.get(), key.get());
    X509_NAME* subject = ::X509_get_subject_name(cert.get());
    ::X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
    ::X509_set_issuer_name(cert.get(), subject);
    X509_EXTENSION* names =
        ::X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, ("DNS:" + name).c_str());
    ::X509_add_ext(cert.get(), names, -1);
    ::X509_EXTENSION_free(names);
    ::X509_sign(cert.get(), key.get(), ::EVP_sha256());
    char folder[] = "/tmp/caisson-trust-XXXXXX";
    folder_ = ::mkdtemp(folder);
    FILE* out = ::fopen(file().c_str(), "we");
    ::PEM_write_X509(out, cert.get());
    ::fclose(out);
  }
  ~Certificate() {
    ::unlink(file().c_str());
    ::rmdir(folder_.c_str());
  }
  Certificate(const Certificate&) = delete;
  Certificate& operator=(const Certificate&) = delete;
  Certificate(Certificate&&) = delete;
  Certificate& operator=(Certificate&&) = delete;
  [[nodiscard]] std::string file() const { return folder_ + "/trust.pem"; }

  std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)> key;
  std::unique_ptr<X509, decltype(&::X509_free)> cert;

 private:
  std::string folder_;
};

}  // namespace caisson::egress::test
