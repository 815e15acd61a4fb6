// The register of key values.
#include "mpi/comms/keyvals.hpp"

#include <algorithm>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "mpi/failure.hpp"
#include "mpi/handle.hpp"
#include "mpi/process/caller.hpp"

namespace weft::mpi {

namespace {

struct Registered {
  Keyval keyval;
  const void* made_at = nullptr;  ///< see program_call
  int uses = 0;
  bool freed = false;
};

/// Numbers are not used twice: one that was freed stays invalid.
struct Register {
  std::mutex lock;
  std::unordered_map<int, Registered> entries;
  int next = 0x1000;  ///< above the predefined ones
};

Register& all_keyvals() {
  // Not destroyed: a program may end without MPI_Finalize, which is then made up for at exit.
  static Register& keyvals = *new Register;
  return keyvals;
}

}  // namespace

int register_keyval(const Keyval& keyval) {
  Register& all = all_keyvals();
  const void* const call = program_call();
  const std::scoped_lock guard(all.lock);
  const int number = all.next++;
  all.entries.emplace(number, Registered{keyval, call});
  return number;
}

void free_keyval(AttributeOf kind, int number) {
  Register& all = all_keyvals();
  const std::scoped_lock guard(all.lock);
  const auto found = all.entries.find(number);
  // One that attributes still use is still there: a delete callback may have freed it before.
  if (found == all.entries.end() || found->second.keyval.kind != kind)
    fail(MPI_ERR_KEYVAL, "not a key value of this kind: predefined, freed, or never made");
  found->second.freed = true;
  if (found->second.uses == 0) all.entries.erase(found);
}

Keyval find_keyval(AttributeOf kind, int number) {
  Register& all = all_keyvals();
  const std::scoped_lock guard(all.lock);
  const auto found = all.entries.find(number);
  if (found == all.entries.end() || found->second.keyval.kind != kind)
    fail(MPI_ERR_KEYVAL, "not a key value of this kind: freed, or never made");
  return found->second.keyval;
}

void use_keyval(AttributeOf kind, int number) {
  Register& all = all_keyvals();
  const std::scoped_lock guard(all.lock);
  const auto found = all.entries.find(number);
  if (found == all.entries.end() || found->second.keyval.kind != kind || found->second.freed)
    fail(MPI_ERR_KEYVAL,
         "not a key value of this kind that attributes can have: freed, or never made");
  ++found->second.uses;
}

void count_uses(int number, int change) noexcept {
  Register& all = all_keyvals();
  const std::scoped_lock guard(all.lock);
  const auto found = all.entries.find(number);
  if (found == all.entries.end()) return;
  found->second.uses += change;
  if (found->second.freed && found->second.uses == 0) all.entries.erase(found);
}

std::vector<std::string> forget_keyvals() {
  Register& all = all_keyvals();
  const std::scoped_lock guard(all.lock);
  std::vector<int> numbers;  // in the order in which they were made
  for (const auto& [number, entry] : all.entries)
    if (!entry.freed) numbers.push_back(number);
  std::sort(numbers.begin(), numbers.end());
  std::vector<std::string> kept;
  for (const int number : numbers) {
    const Registered& entry = all.entries.at(number);
    kept.push_back(
        (entry.keyval.kind == AttributeOf::comm ? "one of communicators" : "one of datatypes") +
        made_at(entry.made_at));
  }
  all.entries.clear();
  return kept;
}

AttributeSet& attributes_of(Datatype& type) {
  static std::mutex lock;
  const std::scoped_lock guard(lock);
  if (!type.attributes) type.attributes = std::make_unique<AttributeSet>();
  return *type.attributes;
}

}  // namespace weft::mpi
