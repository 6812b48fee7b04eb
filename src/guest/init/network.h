// guest/init/network.h — carried connections on the guest's side (kConfigCarryNetwork). The guest
// has nothing but lo. There, init is what a tenant finds at the proxy's and the resolver's ports,
// and at the synthetic addresses, all of which belong to lo: each connection becomes one of the
// carried stream, with the address it went to, and each question to the resolver a datagram of it.
//
// At the synthetic addresses only the ports of the configuration are answered: nobody here can
// listen at all of them. A tenant cannot bind these ports on every address.
//
// The other way, the host's connections to ports inside lead to lo as well.
#pragma once

#include "guest/carried/streams.h"
#include "guest/init/config.h"
#include "guest/init/connection.h"
#include "guest/init/poller.h"

namespace caisson::init {

class Network final : private carried::Sockets, private carried::Outlet {
 public:
  Network(Poller& poller, Connection& link) : poller_(poller), link_(link) {}

  bool open_table();
  // Once; later ones add the ports that are new.
  StartFailure open(const wire::InitConfig& config, wire::Bytes ports);
  // A frame of the carrier about a connection, or an answer. False: it breaks the rules.
  bool take(const wire::FrameHeader& header, wire::Bytes payload);
  void pump();
  // Another carrier is there: no connection is any more.
  void forget();

  void on_listener(uint32_t index);
  void on_questions();
  void on_connection(uint32_t index, uint32_t events);

 private:
  static constexpr uint32_t kListenersMax = wire::kCarriedPortsMax + 4;
  struct Asker {
    bool waits = false;
    uint32_t id = 0;
    uint8_t address[32];  // a sockaddr
    uint32_t size = 0;
  };

  StartFailure listen_on(uint16_t port);
  StartFailure bind_questions();
  bool accept_one(uint32_t index);
  bool ask_one();
  bool answer(uint32_t id, wire::Bytes payload);

  long dial(uint32_t index, const wire::Endpoint& to) override;
  long read(uint32_t index, uint8_t* to, size_t size) override;
  long write(uint32_t index, const uint8_t* from, size_t size) override;
  void end(uint32_t index) override;
  void watch(uint32_t index, bool reads, bool writes) override;
  void close(uint32_t index, bool reset) override;
  void emptied(uint8_t* memory, size_t size) override;
  uint8_t* reserve(size_t size) override;
  void commit(size_t size) override;

  Poller& poller_;
  Connection& link_;
  carried::Streams streams_{carried::Side::Guest, *this};
  bool opened_ = false;
  uint16_t proxy_port_ = 0;
  int listeners_[kListenersMax];
  uint16_t ports_[kListenersMax];
  uint32_t listener_count_ = 0;
  bool full_ = false;  // no slot is free: the listeners are not looked at
  int questions_ = -1;
  bool asks_ = false;  // a question waits for room
  uint32_t asked_ = 0;
  Asker askers_[wire::kQuestionsMax];
  int sockets_[carried::kSlots];
  bool watched_[carried::kSlots] = {};
};

// network_address.cc: lo is up and has these addresses. IPv6 as far as the kernel has it.
StartFailure claim_addresses();

}  // namespace caisson::init
