// Asio's reactor, scheduler and sockets, once for all rooms.
#include <boost/asio/impl/src.hpp>
