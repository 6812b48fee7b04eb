// doors/grpc/utf8_fault.h — what is wrong with bytes that should be UTF-8, in Python's words. Pure.
#pragma once

#include <string>
#include <string_view>

namespace caisson::grpc {

// "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"; empty: nothing is.
[[nodiscard]] std::string utf8_fault(std::string_view bytes);

}  // namespace caisson::grpc
