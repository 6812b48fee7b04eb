#include "egress/gate/inside_test.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <chrono>

#include "egress/gate/socket_address.h"
#include "egress/wire/dns_message.h"

namespace caisson::egress::test {

namespace asio = boost::asio;

namespace {

std::string raise_loopback() {
  const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, "lo", sizeof request.ifr_name - 1);
  request.ifr_flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING;
  if (::ioctl(fd.get(), SIOCSIFFLAGS, &request) != 0) return "cannot raise lo";
  // On lo a prefix makes the whole range local.
  const auto set = [&](unsigned long what, const char* text) {
    ifreq alias{};
    std::strncpy(alias.ifr_name, "lo:1", sizeof alias.ifr_name - 1);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, text, &address.sin_addr);
    std::memcpy(&alias.ifr_addr, &address, sizeof address);
    return ::ioctl(fd.get(), what, &alias) == 0;
  };
  if (!set(SIOCSIFADDR, "198.18.0.1") || !set(SIOCSIFNETMASK, "255.254.0.0")) {
    return "cannot give lo the addresses of names";
  }
  return {};
}

std::string enter() {
  if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    return "no network namespace of our own: " + errno_text(errno);
  }
  return raise_loopback();
}

// Before main(), while there is one thread: every later one is born inside.
const std::string kInsideFault = enter();

// An address of its own, so that its port is free in both protocols.
constexpr const char* kNamesAddress = "127.0.0.3";

void open_pipe(UniqueFd& read_end, UniqueFd& write_end) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  read_end = UniqueFd(ends[0]);
  write_end = UniqueFd(ends[1]);
}

std::string u16(unsigned value) {
  return {static_cast<char>(value >> 8), static_cast<char>(value & 0xff)};
}

}  // namespace

const std::string& inside_fault() { return kInsideFault; }

UniqueFd listen_at(const std::string& address, std::uint16_t port, int type) {
  const auto parsed = IpAddress::parse(address);
  const KernelAddress at = to_kernel(*parsed, port);
  UniqueFd fd(::socket(at.get()->sa_family, type | SOCK_CLOEXEC, 0));
  const int on = 1;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  EXPECT_EQ(::bind(fd.get(), at.get(), at.size), 0) << address << ":" << port << " " << errno;
  if (type == SOCK_STREAM) EXPECT_EQ(::listen(fd.get(), 512), 0);
  return fd;
}

std::uint16_t port_of(int fd) { return local_endpoint(fd)->port; }

UniqueFd connect_to(const std::string& address, std::uint16_t port) {
  const KernelAddress to = to_kernel(*IpAddress::parse(address), port);
  UniqueFd fd(::socket(to.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(fd.get(), to.get(), to.size), 0) << address << ":" << port << " " << errno;
  return fd;
}

Host::Host(Serve serve, std::uint16_t port, const std::string& address)
    : serve_(std::move(serve)), listener_(listen_at(address, port)) {
  port_ = port_of(listener_.get());
  open_pipe(wake_read_, wake_write_);
  acceptor_ = std::thread([this] { accept_all(); });
}

Host::~Host() {
  wake_write_.reset();
  acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int fd : open_) (void)::shutdown(fd, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
}

void Host::accept_all() {
  for (;;) {
    pollfd look[2] = {{listener_.get(), POLLIN, 0}, {wake_read_.get(), POLLIN, 0}};
    if (::poll(look, 2, -1) < 0 || look[1].revents != 0) return;
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) continue;
    ++connections_;
    const std::lock_guard lock(mutex_);
    open_.push_back(fd.get());
    threads_.emplace_back([this, taken = std::move(fd)]() mutable {
      const int number = taken.get();
      RawClient client(std::move(taken));
      serve_(client);
      const std::lock_guard inner(mutex_);
      std::erase(open_, number);
    });
  }
}

Host::Serve echo_heads() {
  return [](RawClient& client) {
    for (;;) {
      const std::string head = client.until("\r\n\r\n");
      if (head.empty()) return;
      std::string body;
      const std::size_t at = head.find("Content-Length: ");
      if (at != std::string::npos) body = client.take(std::stoul(head.substr(at + 16)));
      const bool bodiless = head.starts_with("HEAD ");
      const std::string text = head + body;
      client.send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", text.size(),
                              bodiless ? "" : text));
    }
  };
}

Names::Names()
    : udp_(listen_at(kNamesAddress, kDnsPort, SOCK_DGRAM)),
      tcp_(listen_at(kNamesAddress, kDnsPort)) {
  open_pipe(wake_read_, wake_write_);
  thread_ = std::thread([this] { run(); });
}

Names::~Names() {
  wake_write_.reset();
  thread_.join();
}

NameServer Names::server() { return {*IpAddress::parse(kNamesAddress), kDnsPort}; }

void Names::set(const std::string& name, Answer answer) {
  set(name, [answer](int) { return answer; });
}

void Names::set(const std::string& name, std::function<Answer(int)> answer) {
  const std::lock_guard lock(mutex_);
  known_[name] = std::move(answer);
}

std::vector<std::string> Names::asked() {
  const std::lock_guard lock(mutex_);
  return asked_;
}

std::string Names::answer(std::string_view query, bool tcp) {
  ByteReader reader(as_bytes(query), kDnsHeaderBytes);
  const auto wire = read_dns_name(as_bytes(query), reader);
  if (!wire) return {};
  const auto host = host_of_dns_name(*wire);
  const unsigned type = reader.u16().value_or(0);
  const std::string name = host ? host->text() : "?";
  const std::string_view question =
      query.substr(kDnsHeaderBytes, reader.at() + 2 - kDnsHeaderBytes);
  const std::lock_guard lock(mutex_);
  asked_.push_back(fmt::format("{}/{}", name, type));
  const auto known = known_.find(name);
  Answer addresses;
  if (known != known_.end()) addresses = known->second(counts_[asked_.back()]++);
  unsigned flags = 0x8180 | (known == known_.end() ? 3U : 0U);
  if (truncate_ && !tcp) flags |= 0x0200;
  std::string records;
  unsigned count = 0;
  for (const std::string& text : addresses) {
    const auto address = IpAddress::parse(text);
    const bool four = address->family() == IpFamily::V4;
    if ((type == 1) != four || (truncate_ && !tcp)) continue;
    ++count;
    records += "\xc0\x0c" + u16(type) + u16(1) + u16(0) + u16(0) +
               u16(static_cast<unsigned>(address->size()));
    records += as_text(address->bytes());
  }
  return std::string(query.substr(0, 2)) + u16(flags) + u16(1) + u16(count) + u16(0) + u16(0) +
         std::string(question) + records;
}

void Names::run() {
  std::string packet(2048, '\0');
  for (;;) {
    pollfd look[3] = {
        {udp_.get(), POLLIN, 0}, {tcp_.get(), POLLIN, 0}, {wake_read_.get(), POLLIN, 0}};
    if (::poll(look, 3, -1) < 0 || look[2].revents != 0) return;
    if ((look[0].revents & POLLIN) != 0) {
      sockaddr_storage from{};
      socklen_t size = sizeof from;
      const ssize_t got = ::recvfrom(udp_.get(), packet.data(), packet.size(), 0,
                                     reinterpret_cast<sockaddr*>(&from), &size);
      if (got <= 0) continue;
      const std::string out =
          answer(std::string_view(packet).substr(0, static_cast<std::size_t>(got)), false);
      if (silent_) continue;
      (void)::sendto(udp_.get(), out.data(), out.size(), 0,
                     reinterpret_cast<const sockaddr*>(&from), size);
    }
    if ((look[1].revents & POLLIN) != 0) {
      RawClient client(UniqueFd(::accept4(tcp_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
      ++by_tcp_;
      const std::string length = client.take(2);
      if (length.size() < 2) continue;
      const std::size_t size =
          static_cast<unsigned char>(length[0]) * 256U + static_cast<unsigned char>(length[1]);
      const std::string out = answer(client.take(size), true);
      client.send(u16(static_cast<unsigned>(out.size())) + out);
    }
  }
}

Loop::Loop() : thread_([this] { context.run(); }) {}

Loop::~Loop() {
  context.stop();
  thread_.join();
}

void Loop::on_thread(const std::function<void()>& work) {
  std::promise<void> done;
  asio::post(context, [&] {
    work();
    done.set_value();
  });
  done.get_future().wait();
}

bool Loop::wait_until(const std::function<bool()>& holds) {
  const TimePoint until = Clock::now() + seconds(30);
  while (Clock::now() < until) {
    bool held = false;
    on_thread([&] { held = holds(); });
    if (held) return true;
  }
  return false;
}

Inside::Inside(std::vector<policy::NetworkEgressRule> rules, Options options) {
  resolver = Resolver::make(loop.context.get_executor(), {{Names::server()}, milliseconds(500), 1});
  InsideSockets sockets;
  sockets.listeners.push_back(listen_at("127.0.0.1", kProxyPort));
  sockets.listeners.push_back(listen_at("127.0.0.1", kResolverPort));
  for (const auto& [address, port] : options.listeners) {
    sockets.listeners.push_back(listen_at(address, port));
  }
  sockets.resolver = listen_at("127.0.0.1", kResolverPort, SOCK_DGRAM);
  GateOptions made;
  made.sandbox = "sb_test";
  auto compiled = Rules::compile(std::move(rules));
  EXPECT_TRUE(compiled) << compiled.error().message;
  made.rules = std::move(*compiled);
  made.resolver = resolver;
  made.identify = options.identify;
  made.times = options.times;
  made.trust_store = options.trust_store;
  made.authority = options.authority;
  made.secrets = options.secrets;
  made.gateway = options.gateway;
  made.proxy = options.proxy;
  const bool fails = options.record_fails;
  made.witness.decided = [this, fails](Passage passage) -> asio::awaitable<Result<void>> {
    passages_.push_back(std::move(passage));
    if (fails) co_return failure(Errc::StoreFull, "full");
    co_return Result<void>();
  };
  made.witness.noted = [this](Passage passage) {
    passages_.push_back(std::move(passage));
    return true;
  };
  made.witness.ended = [this](Farewell words) { farewells_.push_back(std::move(words)); };
  loop.on_thread([&] {
    auto opened = Gate::open(loop.context.get_executor(), std::move(sockets), std::move(made));
    EXPECT_TRUE(opened) << opened.error().message;
    gate = std::move(*opened);
  });
}

Inside::~Inside() {
  loop.on_thread([&] { gate.reset(); });
}

http::test::Reply Inside::ask(std::string_view bytes) { return proxy().ask(bytes); }

void Inside::replace(std::vector<policy::NetworkEgressRule> rules) {
  auto compiled = Rules::compile(std::move(rules));
  ASSERT_TRUE(compiled) << compiled.error().message;
  loop.on_thread([&] { gate->replace_rules(std::move(*compiled)); });
}

GateCounts Inside::counts() {
  GateCounts counts;
  loop.on_thread([&] { counts = gate->counts(); });
  return counts;
}

std::vector<Passage> Inside::passages() {
  std::vector<Passage> out;
  loop.on_thread([&] { out = passages_; });
  return out;
}

std::vector<Farewell> Inside::farewells() {
  std::vector<Farewell> out;
  loop.on_thread([&] { out = farewells_; });
  return out;
}

bool Inside::wait_farewells(std::size_t count) {
  return loop.wait_until([&] { return farewells_.size() >= count; });
}

bool Inside::wait_passages(std::size_t count) {
  return loop.wait_until([&] { return passages_.size() >= count; });
}

Inside::Found Inside::look_up(const std::string& name, std::uint16_t type, bool tcp) {
  std::string query = u16(0x1234) + u16(0x0100) + u16(1) + u16(0) + u16(0) + u16(0);
  std::string_view rest = name;
  while (!rest.empty()) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    query += static_cast<char>(dot);
    query += rest.substr(0, dot);
    rest.remove_prefix(std::min(dot + 1, rest.size()));
  }
  query += '\0' + u16(type) + u16(1);
  std::string reply(1500, '\0');
  if (tcp) {
    RawClient client(kResolverPort);
    client.send(u16(static_cast<unsigned>(query.size())) + query);
    const std::string size = client.take(2);
    if (size.size() < 2) return {};
    reply = client.take(static_cast<unsigned char>(size[0]) * 256U +
                        static_cast<unsigned char>(size[1]));
  } else {
    const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const KernelAddress to = to_kernel(IpAddress::v4({127, 0, 0, 1}), kResolverPort);
    EXPECT_EQ(::connect(fd.get(), to.get(), to.size), 0);
    EXPECT_GT(::send(fd.get(), query.data(), query.size(), 0), 0);
    pollfd look{fd.get(), POLLIN, 0};
    if (::poll(&look, 1, http::test::kWaitMilliseconds) <= 0) return {};
    const ssize_t got = ::recv(fd.get(), reply.data(), reply.size(), 0);
    reply.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
  Found found;
  ByteReader reader(as_bytes(reply));
  const auto header = read_dns_header(reader);
  if (!header) return found;
  found.rcode = static_cast<int>(header->rcode());
  EXPECT_TRUE(read_dns_name(as_bytes(reply), reader));
  (void)reader.u32();
  for (unsigned i = 0; i < header->answers; ++i) {
    EXPECT_TRUE(read_dns_name(as_bytes(reply), reader));
    (void)reader.u32();
    (void)reader.u32();
    const auto bytes = reader.vector16();
    if (!bytes) break;
    const auto address = IpAddress::from_bytes(*bytes);
    if (address) found.addresses.push_back(to_string(*address));
  }
  return found;
}

policy::NetworkEgressRule rule(const std::string& domain, std::uint16_t port) {
  policy::NetworkEgressRule out;
  out.domain = domain;
  if (port != 0) out.ports = {port};
  out.rate_limit_per_min = 100000;
  if (!domain.starts_with('*')) out.granted_addresses = {"127.0.0.1"};
  return out;
}

std::string get(const std::string& host, std::uint16_t port, const std::string& path,
                const std::string& more) {
  return fmt::format("GET http://{0}:{1}{2} HTTP/1.1\r\nHost: {0}:{1}\r\n{3}\r\n", host, port, path,
                     more);
}

std::string connect_line(const std::string& target) {
  return fmt::format("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n", target);
}

std::string hello_for(const std::string& name, bool hidden) {
  std::string extensions;
  if (!name.empty()) {
    const std::string entry =
        '\0' + u16(static_cast<unsigned>(name.size())) + name;  // a host name, and its length
    const std::string list = u16(static_cast<unsigned>(entry.size())) + entry;
    extensions += u16(0) + u16(static_cast<unsigned>(list.size())) + list;
  }
  if (hidden) extensions += u16(0xfe0d) + u16(1) + std::string(1, '\0');
  std::string body = u16(0x0303) + std::string(32, 'r') + std::string(1, '\0') + u16(2) +
                     u16(0x1301) + std::string("\x01\x00", 2);
  body += u16(static_cast<unsigned>(extensions.size())) + extensions;
  const std::string message =
      std::string("\x01\x00", 2) + u16(static_cast<unsigned>(body.size())) + body;
  return "\x16\x03\x01" + u16(static_cast<unsigned>(message.size())) + message;
}

}  // namespace caisson::egress::test
