// guest/carrier — caisson-carrier: stands on the host's side of a guest that another kernel runs,
// and plays init towards the launcher and the server. Start at core.h, which is all that it
// decides; main.cc moves the bytes, confine.cc takes away what moving bytes does not need.
//
//   kFdControl  SOCK_SEQPACKET to the launcher, as init's
//   kFdStream   the server's stream, or nothing: later ones come by Attach
//   kFdCarried  the one stream to init, for life
//
// It ends when the launcher, or init's stream, is gone, and when init says what is no frame. It
// runs in the sandbox's own namespaces and groups, with init's id, an empty root and no capability.
//
// Never here: memory of libc, paths, processes, the C++ library, a decision about a policy. It is
// on the guest's side of the wall: what it says to the server is checked there again.
#pragma once

#include "guest/carrier/core.h"

namespace caisson::carrier {

// For good: a few calls that move bytes, and the end of the process for any other. 0, or -errno.
long confine();

}  // namespace caisson::carrier
