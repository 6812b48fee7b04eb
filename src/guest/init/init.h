// guest/init — caisson-init: process 1 of every sandbox. It starts tenants, keeps what they print,
// does file work for the host, and ends everything. Start at main.cc, which is the loop; process.h
// is the life of a tenant, child.h the steps from fork to exec, operation.h the file work.
//
// One thread, one epoll set, no allocation from libc: tables are static, buffers are mappings that
// children do not inherit. So a fork copies little, and nothing a tenant does can make init wait: a
// half-made child is never waited for, a full pipe stops being read, a peer that does not read
// stops new work, and file work runs in its own process.
//
// Never here: libstdc++, exceptions, paths or names taken on trust. init is on the guest's side of
// the wall: what it says to the host is checked there again.
#pragma once

#include "guest/init/config.h"
#include "guest/init/connection.h"
#include "guest/init/group.h"
#include "guest/init/network.h"
#include "guest/init/operation.h"
#include "guest/init/poller.h"
#include "guest/init/process.h"

namespace caisson::init {

// Everything init knows. One object, made by main and handed down.
struct Init {
  Config config;
  Poller poller;
  Connection link{poller};
  GroupPool groups;
  ProcessTable processes{config, poller, link, groups};
  OperationTable operations{config, poller, link};
  Network network{poller, link};
  uint16_t first_ports[wire::kCarriedPortsMax] = {};  // of the configuration
  bool held = false;                                  // between Hold and what ends it
};

// main.cc
void peer_left(Init& init);
[[noreturn]] void end_sandbox(Init& init);
// Numbers 3…8 have a meaning in every child: those that nobody filled are taken, so that nothing
// else lands there.
bool reserve_descriptors();

// carried.cc: init behind another kernel, where descriptors 0 and 1 are all there is. Takes them
// and reads the configuration; gives up by itself.
void begin_carried(Init& init, Connection::Life life);
[[noreturn]] void give_up_carried(Init& init, StartFailure failure);
// What comes when the tables are there.
void open_network(Init& init);
// A word of the carrier. False when it is none.
bool handle_carried(Init& init, const wire::FrameHeader& header, wire::Bytes payload);

// requests.cc: one frame of the host. False when the peer broke the protocol and must be dropped.
bool handle_request(Init& init, const wire::FrameHeader& header, wire::Bytes payload);

}  // namespace caisson::init
