// Info objects and the calls about them.
#include "mpi/info.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "mpi/abi/calls.hpp"
#include "mpi/failure.hpp"
#include "mpi/process/info_env.hpp"

namespace weft::mpi {
namespace {

Info& info(MPI_Info handle) {
  Info* found = handle == MPI_INFO_NULL ? nullptr : infos().find(handle);
  if (found == nullptr) fail(MPI_ERR_INFO, "not an info object: null, freed, or never made");
  return *found;
}

/// One that the program may change.
Info& own_info(MPI_Info handle) {
  if (handle == MPI_INFO_ENV) fail(MPI_ERR_INFO, "MPI_INFO_ENV cannot be changed");
  return info(handle);
}

std::string_view key_of(const char* key) {
  if (key == nullptr) fail(MPI_ERR_INFO_KEY, "the key is null");
  const std::size_t length = strnlen(key, MPI_MAX_INFO_KEY);
  if (length == 0) fail(MPI_ERR_INFO_KEY, "the key is empty");
  if (length >= MPI_MAX_INFO_KEY) fail(MPI_ERR_INFO_KEY, "the key is too long");
  return {key, length};
}

std::string_view value_of(const char* value) {
  if (value == nullptr) fail(MPI_ERR_INFO_VALUE, "the value is null");
  const std::size_t length = strnlen(value, MPI_MAX_INFO_VAL);
  if (length >= MPI_MAX_INFO_VAL) fail(MPI_ERR_INFO_VALUE, "the value is too long");
  return {value, length};
}

MPI_Info publish(Held<Info> made) {
  const MPI_Info handle = infos().add(made.get());
  made.release();
  return handle;
}

/// `text` cut to `room` bytes, its end included.
void copy_cut(const std::string& text, std::size_t room, char* out) {
  if (room == 0) return;
  const std::size_t kept = std::min(text.size(), room - 1);
  std::memcpy(out, text.data(), kept);
  out[kept] = '\0';
}

}  // namespace

std::optional<std::string> Info::get(std::string_view key) const {
  const std::scoped_lock guard(lock_);
  for (const auto& [name, value] : entries_)
    if (name == key) return value;
  return std::nullopt;
}

void Info::set(std::string_view key, std::string_view value) {
  const std::scoped_lock guard(lock_);
  for (auto& [name, old] : entries_) {
    if (name != key) continue;
    old = value;
    return;
  }
  entries_.emplace_back(key, value);
}

bool Info::erase(std::string_view key) {
  const std::scoped_lock guard(lock_);
  return std::erase_if(entries_, [&](const auto& entry) { return entry.first == key; }) > 0;
}

std::vector<std::pair<std::string, std::string>> Info::all() const {
  const std::scoped_lock guard(lock_);
  return entries_;
}

HandleTable<Info, MPI_Info>& infos() {
  static HandleTable<Info, MPI_Info>& table = [&]() -> auto& {
    auto& made = *new HandleTable<Info, MPI_Info>;
    auto* environment = new Info;
    describe_start(*environment);
    made.define(MPI_INFO_ENV, environment);
    return made;
  }
  ();
  return table;
}

Info* info_or_null(MPI_Info handle) { return handle == MPI_INFO_NULL ? nullptr : &info(handle); }

namespace calls {

void Info_create(MPI_Info* info) {
  need(info);
  *info = publish(Held<Info>::adopt(new Info));
}

void Info_create_env(int argc, char* argv[], MPI_Info* info) {
  (void)argc;  // the operating system tells as much
  (void)argv;
  need(info);
  auto made = Held<Info>::adopt(new Info);
  describe_start(*made);
  *info = publish(std::move(made));
}

void Info_free(MPI_Info* info) {
  need(info);
  (void)own_info(*info);
  if (Info* freed = infos().remove(*info)) freed->drop();
  *info = MPI_INFO_NULL;
}

void Info_dup(MPI_Info handle, MPI_Info* newinfo) {
  need(newinfo);
  auto copy = Held<Info>::adopt(new Info);
  for (const auto& [key, value] : info(handle).all()) copy->set(key, value);
  *newinfo = publish(std::move(copy));
}

void Info_set(MPI_Info handle, const char* key, const char* value) {
  Info& object = own_info(handle);
  object.set(key_of(key), value_of(value));
}

void Info_delete(MPI_Info handle, const char* key) {
  Info& object = own_info(handle);
  if (!object.erase(key_of(key)))
    fail(MPI_ERR_INFO_NOKEY, fmt::format("there is no key '{}'", key));
}

void Info_get_nkeys(MPI_Info handle, int* nkeys) {
  need(nkeys);
  *nkeys = static_cast<int>(info(handle).all().size());
}

void Info_get_nthkey(MPI_Info handle, int n, char* key) {
  need(key);
  const auto entries = info(handle).all();
  if (n < 0 || static_cast<std::size_t>(n) >= entries.size())
    fail(MPI_ERR_ARG, fmt::format("there is no key {} of {}", n, entries.size()));
  copy_cut(entries[static_cast<std::size_t>(n)].first, MPI_MAX_INFO_KEY, key);
}

void Info_get_string(MPI_Info handle, const char* key, int* buflen, char* value, int* flag) {
  need(buflen);
  need(flag);
  const auto found = info(handle).get(key_of(key));
  *flag = found ? 1 : 0;
  if (!found) return;
  if (*buflen < 0) fail(MPI_ERR_ARG, "a negative length");
  if (*buflen > 0) {
    need(value);
    copy_cut(*found, static_cast<std::size_t>(*buflen), value);
  }
  *buflen = static_cast<int>(found->size()) + 1;
}

void Info_get(MPI_Info handle, const char* key, int valuelen, char* value, int* flag) {
  need(flag);
  const auto found = info(handle).get(key_of(key));
  if (valuelen < 0) fail(MPI_ERR_ARG, "a negative length");
  *flag = found ? 1 : 0;
  if (!found) return;
  need(value);
  copy_cut(*found, static_cast<std::size_t>(valuelen) + 1, value);
}

void Info_get_valuelen(MPI_Info handle, const char* key, int* valuelen, int* flag) {
  need(flag);
  const auto found = info(handle).get(key_of(key));
  *flag = found ? 1 : 0;
  if (!found) return;
  need(valuelen);
  *valuelen = static_cast<int>(found->size());
}

}  // namespace calls
}  // namespace weft::mpi
