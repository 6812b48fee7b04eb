// image/run_test.h — for tests: one coroutine on an io_context, until it is done.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <optional>
#include <utility>

namespace caisson::image::test {

inline constexpr std::chrono::seconds kBound{60};  // far above what any wait here needs

// Runs until every one of them is done.
template <class... Values>
std::tuple<std::optional<Values>...> run_all(boost::asio::io_context& io,
                                             boost::asio::awaitable<Values>... work) {
  std::tuple<std::optional<Values>...> out;
  std::size_t left = sizeof...(Values);
  const auto start = [&](auto& slot, auto&& one) {
    boost::asio::co_spawn(io, std::move(one),
                          [&slot, &left](const std::exception_ptr& thrown, auto value) {
                            if (!thrown) slot = std::move(value);
                            --left;
                          });
  };
  std::apply([&](auto&... slots) { (start(slots, std::move(work)), ...); }, out);
  io.restart();
  const auto end = std::chrono::steady_clock::now() + kBound;
  while (left > 0 && std::chrono::steady_clock::now() < end) {
    io.run_one_for(std::chrono::milliseconds(1000));
    if (io.stopped()) io.restart();
  }
  EXPECT_EQ(left, 0U) << "nothing came";
  return out;
}

template <class Value>
Value run(boost::asio::io_context& io, boost::asio::awaitable<Value> work) {
  auto [out] = run_all<Value>(io, std::move(work));
  return std::move(*out);
}

}  // namespace caisson::image::test
