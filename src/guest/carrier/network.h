// guest/carrier/network.h — the sockets of carried connections on the host's side. A guest's lead
// to the gate's places in the sandbox's own network and nowhere else; those of the host are the
// ends that the launcher has handed over.
#pragma once

#include "guest/carrier/core.h"

namespace caisson::carrier {

enum class Source : uint32_t { Control, Init, Server, Connection, Question };

class Network final : public carried::Sockets {
 public:
  void open(int epoll, Core& core);
  // The socket of slot `index`, which the launcher gave.
  void adopt(uint32_t index, int fd) { sockets_[index] = fd; }
  void ask(uint32_t id, const wire::Endpoint& to, wire::Bytes question);

  void on_connection(uint32_t index, uint32_t events);
  void on_question(uint32_t index);

  long dial(uint32_t index, const wire::Endpoint& to) override;
  long read(uint32_t index, uint8_t* to, size_t size) override;
  long write(uint32_t index, const uint8_t* from, size_t size) override;
  void end(uint32_t index) override;
  void watch(uint32_t index, bool reads, bool writes) override;
  void close(uint32_t index, bool reset) override;
  void emptied(uint8_t* memory, size_t size) override;

 private:
  struct Question {
    int fd = -1;
    uint32_t id = 0;
    wire::Endpoint to{};
  };
  void forget(Question& question);

  int epoll_ = -1;
  Core* core_ = nullptr;
  int sockets_[carried::kSlots];
  bool watched_[carried::kSlots] = {};
  Question questions_[wire::kQuestionsMax];
};

void watch_fd(int epoll, int how, int fd, uint32_t events, Source source, uint32_t index = 0);

}  // namespace caisson::carrier
