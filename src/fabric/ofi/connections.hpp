// The TCP connections below an endpoint of libfabric's, which shows none.
#pragma once

#include <cstddef>
#include <span>

namespace weft::fabric::ofi {

/// Shuts this process's connections between the endpoints of these addresses, whoever opened them:
/// the provider then ends what it had under way on them, and makes new ones when it needs to. As a
/// peer's connection to us has a port of its own, those of other endpoints on its host to this
/// endpoint of ours are shut as well. Does nothing if the addresses are not of sockets.
void shut_connections(std::span<const std::byte> ours, std::span<const std::byte> theirs) noexcept;

}  // namespace weft::fabric::ofi
