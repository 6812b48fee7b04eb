// guest/init/tree.h — finding a tenant's descendants where there are no groups (gVisor, rootless
// without delegation).
#pragma once

namespace caisson::init {

// Signals every process of the tree that `leader` began: its session, and whatever descends from
// that. With `strays`, also daemons that left both and came to init. SIGKILL goes round until
// nothing is left, a bounded number of times. Gives how many processes were signalled, the leader
// not counted.
int tree_signal(int leader, int number, bool strays);

}  // namespace caisson::init
