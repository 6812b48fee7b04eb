// guest/init/group.h — one v2 group per tenant, so that a daemonised tree ends with the exec that
// began it. A group that became empty is used again: a mkdir and a rmdir cost more than everything
// else about it. Not one that was killed: kernels since 6.14 compare the kill counts of the
// parent's group and of the one a child is born into, and kill the newborn when they differ. Such a
// group is removed and made anew.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "guest/init/sys.h"
#include "guest/protocol/protocol.h"

namespace caisson::init {

class GroupPool {
 public:
  static constexpr int kNone = -1;

  bool open(bool present);  // false without memory
  [[nodiscard]] bool present() const { return present_; }

  int acquire();  // an empty group, kNone with errno set when there is none
  void release(int group);

  [[nodiscard]] int directory(int group) const { return at(group).directory; }
  [[nodiscard]] int events(int group) const { return at(group).events; }
  bool populated(int group);
  bool kill(int group);
  void kill_all();  // everything in it, at once
  // Everybody stands still before it returns, or it says false and nobody does. Without groups
  // there is nobody to stop.
  [[nodiscard]] bool freeze_all();
  void thaw_all();
  int signal(int group, int number);         // each process in it; how many there were
  [[nodiscard]] uint64_t cpu_us(int group);  // used since acquire()

 private:
  enum class State : uint8_t {
    Absent,
    Free,
    Used,
    Lingering,  // released with processes in it
  };
  struct Group {
    int directory;
    int events;
    int cpu;
    uint64_t cpu_last_us;  // as it was last read
    uint64_t cpu_base_us;
    State state;
    bool killed;
  };

  Group& at(int index) { return groups_[static_cast<size_t>(index)]; }
  [[nodiscard]] const Group& at(int index) const { return groups_[static_cast<size_t>(index)]; }
  bool make(int index);
  bool renew(int index);
  int take(int index);
  uint64_t read_cpu(int index);
  [[nodiscard]] bool runs(int index);
  void set_frozen(int index, bool frozen);
  [[nodiscard]] bool stands_still(int index, uint64_t deadline_us);

  bool present_ = false;
  bool frozen_ = false;
  int used_max_ = 0;  // groups beyond were never made
  Slots<Group, wire::kProcessesMax> groups_;
};

// The number behind `key` in a file of "key value" lines; 0 when it is not there.
uint64_t field_of(const char* text, const char* key);

}  // namespace caisson::init
