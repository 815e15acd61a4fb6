// What weft takes a provider and its addresses for: whether a knock at an address may say something
// of a peer's death.
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <string>
#include <vector>

#include "fabric/ofi/endpoint.hpp"
#include "fabric/ofi_processes.hpp"
#include "fabric/tcp_providers.hpp"

namespace weft::fabric::ofi {
namespace {

bool is_over_tcp_by_name(const char* provider) {
  std::string name = provider == nullptr ? "" : provider;
  fi_fabric_attr attributes{};
  attributes.prov_name = provider == nullptr ? nullptr : name.data();
  fi_info info{};
  info.fabric_attr = &attributes;
  return is_over_tcp(info);
}

TEST(OfiProvider, OverTcpAreThoseWhoseCoreIs) {
  for (const char* provider :
       {"tcp", "net", "sockets", "tcp;ofi_rxm", "net;ofi_rxm", "tcp;ofi_rxm;ofi_hook_trace"})
    EXPECT_TRUE(is_over_tcp_by_name(provider)) << provider;
}

/// Some have addresses that look like TCP's. Where nobody listens at such a port, nobody is dead.
TEST(OfiProvider, OverNothingElse) {
  for (const char* provider : {"udp;ofi_rxd", "udp", "verbs", "verbs;ofi_rxm", "psm3", "efa", "cxi",
                               "opx", "shm", "ucx", "tcpx", "nettle", "xnet;tcp", ";tcp", ""})
    EXPECT_FALSE(is_over_tcp_by_name(provider)) << provider;
  EXPECT_FALSE(is_over_tcp_by_name(nullptr));
}

/// Those that are here say so of themselves.
TEST(OfiProvider, AsChosen) {
  for (const char* provider : test::kTcpProviders) {
    const test::Configured configured("fabric.ofi.provider", provider);
    const Info info = choose_provider(true, true);
    EXPECT_TRUE(is_over_tcp(*info)) << provider;
    const auto* const address = static_cast<const std::byte*>(info->src_addr);
    EXPECT_TRUE(is_socket_address({address, info->src_addrlen})) << provider;
  }
}

TEST(OfiProvider, HowPeersMemoryIsReadOverIt) {
  const auto how = [](const char* provider, const char* wish) {
    const test::Configured configured(test::Configured::List{{"fabric.ofi.provider", provider},
                                                             {"fabric.ofi.remote_reads", wish}});
    return how_to_read(*choose_provider(true, true));
  };
  EXPECT_EQ(how(test::kUnlayered, "automatic"), Reads::by_messages);
  EXPECT_EQ(how(test::kUnlayered, "messages"), Reads::by_messages);
  EXPECT_EQ(how(test::kUnlayered, "provider"), Reads::by_provider);
  EXPECT_EQ(how(test::kUnlayered, "off"), Reads::never);
  EXPECT_EQ(how(test::kLayered, "automatic"), Reads::by_provider);
  try {
    (void)how(test::kLayered, "messages");
    ADD_FAILURE() << "not for layers";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::bad_config);
    EXPECT_NE(std::string(error.what()).find("tcp;ofi_rxm"), std::string::npos) << error.what();
  }
}

TEST(OfiProvider, OnlyWholeAddressesOfIpAreKnockedAt) {
  const auto holds = [](sa_family_t family, std::size_t bytes) {
    sockaddr_storage address{};
    address.ss_family = family;
    return is_socket_address(std::as_bytes(std::span(&address, 1)).first(bytes));
  };
  EXPECT_TRUE(holds(AF_INET, sizeof(sockaddr_in)));
  EXPECT_TRUE(holds(AF_INET6, sizeof(sockaddr_in6)));
  EXPECT_FALSE(holds(AF_INET, sizeof(sockaddr_in6)));
  EXPECT_FALSE(holds(AF_INET6, sizeof(sockaddr_in)));
  EXPECT_FALSE(holds(AF_UNIX, sizeof(sockaddr_in)));
  EXPECT_FALSE(holds(AF_UNSPEC, sizeof(sockaddr_in)));
  EXPECT_FALSE(holds(AF_INET, sizeof(sa_family_t)));
  EXPECT_FALSE(is_socket_address({}));
}

}  // namespace
}  // namespace weft::fabric::ofi
