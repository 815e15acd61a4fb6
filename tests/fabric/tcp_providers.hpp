// libfabric has reliable datagrams over TCP twice: in a layer above connections, and without one.
#pragma once

#include <rdma/fabric.h>

#include <string>

namespace weft::fabric::test {

inline constexpr const char* kLayered = "tcp;ofi_rxm";
/// Another provider up to version 1.17, the same as of connections since.
inline constexpr const char* kUnlayered =
    FI_VERSION_LT(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), FI_VERSION(1, 18)) ? "net"
                                                                                     : "tcp";
inline constexpr const char* kTcpProviders[] = {kLayered, kUnlayered};

/// For INSTANTIATE_TEST_SUITE_P.
inline constexpr auto provider_in_name = [](const auto& one) {
  return std::string(one.param == std::string(kLayered) ? "tcp_rxm" : "tcp");
};

}  // namespace weft::fabric::test
