// Cases of trouble below the ofi transport, each in a process of its own: two ranks, of which rank
// 0's calls of libfabric fail and rank 1's do not, tell each other numbered messages, some in
// packets, and read what the other offers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fabric/faulty_libfabric.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric::test {

/// How a case ended.
enum Outcome : int {
  kArrived = 10,  ///< everything, and every read ended
  kRefused,       ///< no transport, with an error that says why; another can be made afterwards
  kLost,          ///< each rank was told, in a sentence, that the other is lost
  kWrong,
};

/// What goes wrong, and when.
struct Case {
  static constexpr int kAny = -1;

  std::string name;
  std::vector<std::string> said = {};  ///< what an error at set-up must contain
  std::string lost_said = {};          ///< and what rank 0 is told of rank 1's loss
  std::function<void()> at_set_up = {}, afterwards = {}, end = {};
  const char* silence_s = "1";
  const char* receive = "single";   ///< fabric.ofi.receive
  const char* reads = "automatic";  ///< fabric.ofi.remote_reads
  bool scarce = false;              ///< few receives, so that none may be forgotten
  bool exacting = false;            ///< a provider that must be told of all memory
  bool is_of_calls = false;         ///< of a Fault, which must have been met
  uint32_t messages = 60;
  int failed_reads = kAny;  ///< of rank 0's; where all arrived
  int offers = kAny;        ///< 0, 1: whether rank 0 could offer its memory; where all arrived
  int left_open = 0;        ///< of libfabric's objects, at most
};

/// Of a call that fails from the start; or from when both ranks are there.
Case case_of(const Fault& fault);
Case later_case_of(const Fault& fault);

/// Number of reads that a rank makes of what the other offers.
constexpr int kReads = 8;

/// Runs all cases, several at a time; how each ended.
std::vector<Outcome> run_all(const std::vector<Case>& cases, const char* provider);

/// Runs them, and expects that each ends so.
void expect_all(const std::vector<Case>& cases, const char* provider, Outcome expected);

}  // namespace weft::fabric::test
