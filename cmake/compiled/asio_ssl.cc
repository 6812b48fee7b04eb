// Asio's side of TLS, once, for the rooms that speak it.
#include <boost/asio/ssl/impl/src.hpp>
