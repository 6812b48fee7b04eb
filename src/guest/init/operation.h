// guest/init/operation.h — file work. Each operation is a child of its own with the guest user's
// file rights and nothing else, so that a fifo without a writer or a slow disk holds up nobody.
//
//   child → init   a SEQPACKET socket; each message is one or more whole frames without their id,
//                  which init puts in
//   init → child   on the same socket, CreditBody messages; what the host sends for an operation
//                  (bytes of Write and TarIn, strings of a search) by a pipe
//   host → child   bytes of a Write with kOpSocket, by a socket that init only hands on; their
//                  count comes from init as OpCommit
//
// The child may send Data only as far as its credit goes; init moves a message only while there is
// room for it.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "guest/init/config.h"
#include "guest/init/connection.h"
#include "guest/init/poller.h"
#include "guest/init/process.h"

namespace caisson::init {

constexpr size_t kOpMessageMax =
    sizeof(wire::FrameHeader) + sizeof(wire::DataHeader) + wire::kDataMax;

// From init to the child of a Write with kOpSocket. Longer than a CreditBody, so never mistaken for
// one.
struct OpCommit {
  uint64_t kind;  // Kind::Commit
  wire::CommitBody body;
};

// A request as the child sees it: copied out of the connection's buffer before the fork.
struct OpRequest {
  const Config* config;
  wire::OpBody body;
  char path[wire::kPathMax + 1];
  char path2[wire::kPathMax + 1];
  int socket;
  int input;  // a pipe, or the socket of kOpSocket; -1: none
};

// op_child.cc: the child's whole life.
[[noreturn]] void run_operation(const OpRequest& request);

class OperationTable {
 public:
  OperationTable(const Config& config, Poller& poller, Connection& link)
      : config_(config), poller_(poller), link_(link) {}

  bool open() { return operations_.open(); }
  // `socket` is what kOpSocket brought, else -1; closed here in any case.
  void start(uint32_t id, const wire::OpView& view, int socket);
  [[nodiscard]] bool known(uint32_t id) { return find(id) != nullptr; }
  bool input(uint32_t id, wire::Bytes bytes);  // false: beyond the window
  void input_eof(uint32_t id);
  bool commit(uint32_t id, const wire::CommitBody& body);  // false: there is nothing to commit
  void credit(uint32_t id, uint32_t bytes);
  void cancel(uint32_t id);

  void on_socket(uint32_t index, uint32_t events);
  void on_input(uint32_t index);
  bool on_reaped(int pid, int status);
  void on_deadlines(uint64_t now);
  [[nodiscard]] uint64_t next_deadline() const;
  void peer_left();
  void end_all();
  void pump();  // moves what had to wait for room

 private:
  struct Operation {
    uint32_t id = 0;
    bool used = false;
    int pid = 0;          // 0 once it is reaped
    bool killed = false;  // by a signal
    int socket = -1;
    bool armed = false;
    bool answered = false;  // Done or Failed went out
    bool cancelled = false;
    bool silent = false;       // the peer that asked is gone
    bool reset = false;        // the last look at its socket said so
    bool uncommitted = false;  // its bytes come by a socket, and their count has not
    uint64_t kill_at_us = 0;   // when a cancelled child has not gone by itself
    uint32_t credit = 0;       // still to be told to the child
    Input in;
  };

  Operation* find(uint32_t id);
  [[nodiscard]] uint32_t index_of(const Operation& operation) const {
    return static_cast<uint32_t>(&operation - operations_.begin());
  }
  void watch_socket(Operation& operation, bool wanted);
  bool relay(Operation& operation);
  size_t stamp(Operation& operation, uint8_t* message, size_t size);
  void tell_credit(Operation& operation);
  void stop(Operation& operation);
  void settle(Operation& operation);

  const Config& config_;
  Poller& poller_;
  Connection& link_;
  Slots<Operation, wire::kOperationsMax> operations_;
};

}  // namespace caisson::init
