#include "guest/init/ports.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace caisson::init {
namespace {

std::vector<int> ports_of(const std::vector<std::string>& lines) {
  PortSet set;
  for (const auto& line : lines) set.take({line.data(), line.size()});
  std::vector<uint8_t> bytes(2UL * wire::kPortsMax);
  const uint32_t count = set.write(bytes.data());
  std::vector<int> out;
  for (uint32_t i = 0; i < count; ++i) out.push_back(bytes[2UL * i] + 256 * bytes[2UL * i + 1]);
  return out;
}

const std::string kTail = " 00000000:00000000 00:00000000 00000000  1000        0 123 1 0 100 0";
std::string v4(const std::string& local, const std::string& state = "0A") {
  return "   0: " + local + " 00000000:0000 " + state + kTail;
}
std::string v6(const std::string& local) {
  return "  12: " + local + " 00000000000000000000000000000000:0000 0A" + kTail;
}

TEST(Ports, ThoseThatListenWhereWeReachThem) {
  EXPECT_EQ(ports_of({"  sl  local_address rem_address   st tx_queue", v4("00000000:0050"),
                      v4("0100007F:1F90"), v4("0200007F:0016")}),
            (std::vector<int>{22, 80, 8080}));
  EXPECT_EQ(ports_of({v6("00000000000000000000000000000000:1F91"),
                      v6("00000000000000000000000001000000:1F92"),
                      v6("0000000000000000FFFF00000100007F:1F93")}),
            (std::vector<int>{8081, 8082, 8083}));
}

TEST(Ports, NoOthers) {
  EXPECT_TRUE(ports_of({v4("0100007F:1F90", "01"), v4("0100A8C0:1F90"), v4("0100007F:0000"),
                        v6("0000000000000000FFFF00000100A8C0:1F93"),
                        v6("000080FE000000000000000001000000:1F94")})
                  .empty());
}

TEST(Ports, ALineThatIsNoneIsLeftOut) {
  const std::string good = v4("0100007F:1F90");
  for (std::size_t size = 0; size < 34; ++size) {
    EXPECT_TRUE(ports_of({good.substr(0, size)}).empty()) << size;
  }
  EXPECT_TRUE(ports_of({"", "x", std::string(100, '0'), "0: 0100007F1F90 00000000:0000 0A",
                        "0: :1F90 00000000:0000 0A", "0: 0100007G:1F90 00000000:0000 0A",
                        "0: 0100007F0100007F:1F90 00000000:0000 0A"})
                  .empty());
}

TEST(Ports, OnceEachAndNotTooMany) {
  std::vector<std::string> lines;
  for (int port = 1; port <= 2000; ++port) {
    char hex[5];
    std::snprintf(hex, sizeof(hex), "%04X", port);
    lines.push_back(v4("00000000:" + std::string(hex)));
    lines.push_back(lines.back());
  }
  const auto found = ports_of(lines);
  ASSERT_EQ(found.size(), wire::kPortsMax);
  EXPECT_EQ(found.front(), 1);
  EXPECT_EQ(found.back(), 1024);
}

}  // namespace
}  // namespace caisson::init
