#include "policy/environment.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace caisson::policy {
namespace {

using Env = std::vector<std::string>;

CapabilityDeclaration may_read() {
  CapabilityDeclaration capability;
  capability.permissions = {Permission::ReadEnv};
  return capability;
}

TEST(FilterEnvironment, WithoutThePermissionNothingPasses) {
  CapabilityDeclaration capability;
  capability.env_allowlist = {{"PATH"}};
  EXPECT_EQ(filter_environment({"PATH=/bin", "HOME=/root"}, capability), Env());
}

TEST(FilterEnvironment, SecretsNeverPassAllowlistedOrNot) {
  const Env secrets = {"API_KEY=1",       "X_SECRET=1",   "GITHUB_TOKEN=1", "DB_PASSWORD=1",
                       "MY_CREDENTIAL=1", "AWS_REGION=1", "AZURE_X=1",      "GCP_PROJECT=1",
                       "OPENAI_ORG=1",    "ANTHROPIC_=1", "api_key=1",      "Aws_Profile=1",
                       "_KEY=1"};
  EXPECT_EQ(filter_environment(secrets, may_read()), Env());
  CapabilityDeclaration capability = may_read();
  capability.env_allowlist.emplace();
  for (const std::string& entry : secrets) {
    const std::string name = entry.substr(0, entry.find('='));
    EXPECT_TRUE(is_secret_name(name)) << name;
    capability.env_allowlist->push_back(name);
  }
  EXPECT_EQ(filter_environment(secrets, capability), Env());
}

TEST(FilterEnvironment, EntriesThatAreNotVariablesAreDropped) {
  const Env odd = {"NOVALUE", "=X", "", std::string("A=b\0c", 5), std::string("A\0=b", 4)};
  EXPECT_EQ(filter_environment(odd, may_read()), Env());
}

TEST(FilterEnvironment, TheRestPassesInOrder) {
  const Env host = {"PATH=/bin:/usr/bin", "LANG=C.UTF-8", "EMPTY=", "A=b=c", "KEYBOARD=us"};
  EXPECT_EQ(filter_environment(host, may_read()), host);
}

TEST(FilterEnvironment, WithAListOnlyThese) {
  CapabilityDeclaration capability = may_read();
  capability.env_allowlist = {{"LANG", "MISSING"}};
  EXPECT_EQ(filter_environment({"PATH=/bin", "LANG=C", "lang=x", "LANGUAGE=en"}, capability),
            Env({"LANG=C"}));
  capability.env_allowlist.emplace();
  EXPECT_EQ(filter_environment({"PATH=/bin"}, capability), Env());
}

TEST(IsSecretName, PatternsAreNotSubstrings) {
  for (const char* name :
       {"PATH", "KEY", "TOKENS", "TOKEN", "MY_KEYS", "AWS", "XAWS_Y", "MY_KEY_ID"}) {
    EXPECT_FALSE(is_secret_name(name)) << name;
  }
}

}  // namespace
}  // namespace caisson::policy
