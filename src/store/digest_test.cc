#include "store/digest.h"

#include <gtest/gtest.h>

#include "store/audit_chain.h"

namespace caisson::store {
namespace {

TEST(Digest, KnownAnswers) {
  EXPECT_EQ(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  // RFC 4231, case 2.
  EXPECT_EQ(to_hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Digest, HexBackAndForth) {
  const Digest digest = sha256("x");
  EXPECT_EQ(digest_from_hex(to_hex(digest)), digest);
  EXPECT_EQ(digest_from_bytes(as_bytes(digest)), digest);
  EXPECT_FALSE(digest_from_hex(to_hex(digest).substr(1)));
  EXPECT_FALSE(digest_from_hex(to_hex(digest).replace(3, 1, "G")));
  EXPECT_FALSE(digest_from_bytes("short"));
  EXPECT_TRUE(equal_in_constant_time(digest, sha256("x")));
  EXPECT_FALSE(equal_in_constant_time(digest, sha256("y")));
}

AuditEvent event() {
  return {.tenant = "t",
          .actor = "a",
          .action = "login",
          .sandbox = "s",
          .object = "o",
          .outcome = Outcome::Denied,
          .detail = "{}",
          .request_id = "r"};
}

// What is hashed is a promise to every record that exists: whoever changes it breaks them all.
TEST(AuditChain, TheFormIsFixed) {
  ChainHasher hasher;
  std::string form;
  append_canonical(form, 7, 1'700'000'000'000'000, event());
  EXPECT_EQ(form.size(), 8U + 15 + 8 + 8 + 8 + 8 * 7 + 12);
  const Digest hash = hasher.hash(Digest{}, 7, 1'700'000'000'000'000, event());
  EXPECT_EQ(hash, sha256(std::string(kDigestBytes, '\0') + form));
  EXPECT_EQ(to_hex(hash), "93d98804eefe33fd260246bbfbd2512df3e862aff8a2a8ecb03d7c22d14c35da");
}

TEST(AuditChain, EveryColumnCounts) {
  ChainHasher hasher;
  const Digest zero{};
  const Digest base = hasher.hash(zero, 1, 2, event());
  EXPECT_EQ(base, hasher.hash(zero, 1, 2, event()));
  EXPECT_NE(base, hasher.hash(sha256(""), 1, 2, event()));
  EXPECT_NE(base, hasher.hash(zero, 2, 2, event()));
  EXPECT_NE(base, hasher.hash(zero, 1, 3, event()));
  for (std::string AuditEvent::* member :
       {&AuditEvent::tenant, &AuditEvent::actor, &AuditEvent::action, &AuditEvent::sandbox,
        &AuditEvent::object, &AuditEvent::detail, &AuditEvent::request_id}) {
    AuditEvent other = event();
    other.*member += "x";
    EXPECT_NE(base, hasher.hash(zero, 1, 2, other));
  }
  AuditEvent other = event();
  other.outcome = Outcome::Allowed;
  EXPECT_NE(base, hasher.hash(zero, 1, 2, other));
}

// The same letters, distributed otherwise over two columns.
TEST(AuditChain, ColumnsCannotFlowIntoEachOther) {
  ChainHasher hasher;
  AuditEvent left = event();
  AuditEvent right = event();
  left.tenant = "ab";
  left.actor = "c";
  right.tenant = "a";
  right.actor = "bc";
  EXPECT_NE(hasher.hash({}, 1, 2, left), hasher.hash({}, 1, 2, right));
}

}  // namespace
}  // namespace caisson::store
