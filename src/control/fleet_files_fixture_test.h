// A fleet whose launcher keeps files, as the test plays it.
#pragma once

#include <string>

#include "control/fleet_fixture_test.h"
#include "control/records.h"
#include "control/state_seal.h"
#include "sys/temp_dir_test.h"

namespace caisson::control::test {

class FleetFiles : public FleetTest {
 protected:
  FleetFiles() {
    options_.state_key = dir_.path("state.key");
    options_.boot_id = "boot1";
  }
  std::string disk_sandbox() {
    CreateWish wish;
    wish.storage = engine::Storage::Disk;
    return create(wish);
  }
  std::string persistent_sandbox(std::string name = {}) {
    CreateWish wish;
    wish.persistent = true;
    wish.name = std::move(name);
    return create(wish);
  }
  Result<SnapshotView> snap(const std::string& id, std::string name = {}) {
    SnapshotWish wish;
    wish.name = std::move(name);
    return run(fleet_->snapshot(me_, id, wish));
  }
  [[nodiscard]] KeptSpec parse_kept(const std::string& id) {
    return *parse_kept_spec(store_.records.at(id).spec);
  }
  void again() {
    close();
    open();
  }
  [[nodiscard]] std::size_t layers() const { return world_.store.layers.size(); }

  sys::TempDir dir_;
};

}  // namespace caisson::control::test
