// engine/microvm — sandboxes as small virtual machines: a kernel of their own, and a monitor that
// the host treats as one more guest. Start at machine.h, which boots one; vm_plan.h says with which
// command line, driver.h what a monitor must be able to do, jail/jail.h where it runs. The kernel,
// its modules and what is made of them are vm_store.h and kernel_*.h; the monitor's own language is
// qmp.h, and every byte of it is hostile to us: a guest may have taken the monitor over.
//
// init speaks through one virtio-serial port, whose other end is the sandbox's carrier. The machine
// has no network card: what goes out is carried by init.
// Never here: what a sandbox may do, HTTP, the state of a server.
#pragma once

#include "engine/microvm/machine.h"
