// An interceptor below the ofi transport: libfabric, of which chosen calls answer with errors.
//
// Purpose: the objects that a provider makes get tables of functions of their own, which fail when
// they are to, and call the provider's otherwise.
// Owner and lifetime: the process's; for processes of a test's own.
// Who may call: install, begin, pause and resume while no transport is being made elsewhere; the
// rest anyone.
#pragma once

#include <cstdint>
#include <string>

#include "fabric/ofi/libfabric.hpp"

namespace weft::fabric::test {

enum class Call : int {
  getinfo,
  dupinfo,
  fabric,
  domain,
  wait_open,
  av_open,
  cq_open,
  get_wait,  ///< asking for the descriptor to sleep on
  endpoint,
  bind,  ///< to the address vector
  bind_queue,
  enable,
  getname,
  insert,
  send,
  inject,
  receive,
  tagged_send,
  tagged_receive,
  lost_data,     ///< tagged, was sent, it is said, and is not heard of again
  receive_many,  ///< with FI_MULTI_RECV
  least_room,    ///< for these: FI_OPT_MIN_MULTI_RECV
  cancel,
  enter,        ///< memory
  bind_memory,  ///< to the endpoint
  enable_memory,
  memory_key,   ///< is told too late: FI_KEY_NOTAVAIL
  remote_read,  ///< of a peer's memory
  read,         ///< of completions
  completion,   ///< what was under way ends with an error
  read_error,   ///< it does, and the error cannot be read at first
  unreadable,   ///< … ever
  trywait,
  wait,
  endless_send,  ///< what is sent to whom is sent to first is taken, and nothing is heard of it
                 ///< again
  close,         ///< is done, and answers with an error
};
enum class How : int { once, now_and_then, always };  ///< then: a quarter, in no period

struct Fault {
  Call call;
  int code;  ///< FI_EIO …
  How how;
  [[nodiscard]] std::string text() const;
};

class FaultyLibfabric {
 public:
  /// Once in a process, before any transport is made; above other interceptors.
  static void install();
  /// From now on this fails, of objects that are made from now on.
  static void begin(const Fault& fault);
  /// Objects made meanwhile are the provider's own; those made before go on to fail.
  static void pause();
  static void resume();
  /// Nothing fails any more.
  static void end();
  /// Calls of the one that fails since `begin`. (The first of them fails, however it does.)
  [[nodiscard]] static uint32_t calls();
  /// Objects that were made while nothing was paused, and that the provider did not close.
  [[nodiscard]] static int open();
};

}  // namespace weft::fabric::test
