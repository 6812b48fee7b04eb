#include "base/result.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace caisson {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return failure(Errc::InvalidArgument, "odd");
  return n / 2;
}

Result<int> quarter(int n) {
  const int h = TRY(half(n));
  return TRY_IN("second half", half(h));
}

TEST(Result, TryUnwrapsOrReturnsTheError) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(3).error().message, "odd");
  EXPECT_EQ(quarter(6).error().message, "second half: odd");
}

TEST(Result, SystemFailureKeepsErrnoAndNamesIt) {
  const Error error = sys_failure("open /x", ENOENT).error();
  EXPECT_EQ(error.code, Errc::NotFound);
  EXPECT_EQ(error.sys_errno, ENOENT);
  EXPECT_EQ(error.message, "open /x: No such file or directory");
}

}  // namespace
}  // namespace caisson
