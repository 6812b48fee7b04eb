#include "engine/host/features.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/host/examine.h"

namespace caisson::engine {
namespace {

TEST(ProbeHost, SaysTheSameTwice) {
  const HostFeatures host = probe_host();
  EXPECT_EQ(host, probe_host());
  EXPECT_GE(host.kernel, (KernelVersion{4, 0}));
  EXPECT_GE(host.cpus, 1);
  EXPECT_EQ(host.euid, ::geteuid());
  EXPECT_NE(to_string(host).find("kernel " + host.kernel_release), std::string::npos);
}

TEST(HostFeatures, VersionsDecideWhatIsNotAskedFor) {
  HostFeatures host;
  host.overlay = true;
  host.kernel = {5, 14};
  EXPECT_TRUE(host.clone_into_cgroup() && host.close_range() && host.cgroup_kill() &&
              host.idmapped_mounts());
  EXPECT_FALSE(host.overlay_idmapped_layers() || host.overlay_layer_options() ||
               host.overlay_layer_descriptors());
  host.kernel = {6, 13};
  EXPECT_TRUE(host.overlay_idmapped_layers() && host.overlay_layer_options() &&
              host.overlay_layer_descriptors());
  host.overlay = false;
  EXPECT_FALSE(host.overlay_layer_options());
  host.kernel = {};
  EXPECT_FALSE(host.pidfd());
}

TEST(ExamineHost, TrialsLeaveNothingBehind) {
  const ExaminedHost host = examine_host();
  EXPECT_EQ(host.features, probe_host());
  const std::string& place =
      host.features.privileged ? host.features.cgroup_v2_root : host.features.own_v2_group;
  if (host.trials.v2_group == 0) {
    EXPECT_NE(::access((place + "/caisson-doctor-" + std::to_string(::getpid())).c_str(), F_OK), 0);
  }
  EXPECT_EQ(host, examine_host());
}

}  // namespace
}  // namespace caisson::engine
