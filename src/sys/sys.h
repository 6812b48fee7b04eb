// sys — one thin typed function per kernel call; raw kernel headers stop here.
// Start at raw.h: calls without allocation, as the child zone needs them (-1 and errno). On top of
// it, for the library zone, file.h, mount.h, namespace.h, process.h and socket.h return Result and
// name what they did in the message. Never here: what a sandbox is, which mounts it wants, what a
// policy allows.
#pragma once

#include "sys/file.h"
#include "sys/mount.h"
#include "sys/namespace.h"
#include "sys/process.h"
#include "sys/socket.h"
