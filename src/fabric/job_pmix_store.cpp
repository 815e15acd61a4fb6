// What ranks publish and ask for, over PMIx_Put and PMIx_Get.
#include "fabric/job_pmix_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "fabric/job_pmix_news.hpp"

namespace weft::fabric {
namespace {

/// In front of every key, because PMIx keeps some names to itself.
constexpr std::string_view kKeyPrefix = "weft:";
/// How long `get` waits for a launcher of several hosts to fetch what a far rank published.
constexpr int kFarGetSeconds = 30;
/// How long `get` waits for the end of a fence under way. Not for ever: a peer may come to it only
/// after a message that needs the answer.
constexpr std::chrono::seconds kFenceWait{5};

/// The number of the newest publication of `key`; 0: there is none. An index is "number:key" and a
/// zero byte, for each key.
int newest_in(std::string_view index, std::string_view key) {
  while (!index.empty()) {
    const std::string_view one = index.substr(0, index.find('\0'));
    index.remove_prefix(std::min(index.size(), one.size() + 1));
    const std::size_t colon = one.find(':');
    int number = 0;
    if (colon != std::string_view::npos && one.substr(colon + 1) == key &&
        std::from_chars(one.data(), one.data() + colon, number).ec == std::errc())
      return number;
  }
  return 0;
}

}  // namespace

bool PmixStore::is_near(Rank rank) const {
  return std::binary_search(near_.begin(), near_.end(), rank.value);
}

/// The name under which the `generation`th publication of `key` stands.
std::string PmixStore::full_key(std::string_view key, int generation) {
  std::string full = fmt::format("{}{}:{}", kKeyPrefix, generation, key);
  if (full.size() > PMIX_MAX_KEYLEN)
    throw Error(Errc::bad_argument, fmt::format("a job key of {} characters", key.size()));
  return full;
}

/// The name of what a rank had published before that fence of its job, counted from 1.
std::string PmixStore::index_key(uint64_t fence) { return fmt::format("weft.index:{}", fence); }

std::string PmixStore::index() const {
  std::string text;
  for (const auto& [key, number] : put_) {
    text += fmt::format("{}:{}", number, key);
    text.push_back('\0');
  }
  return text;
}

void PmixStore::put_value(const std::string& full, std::string_view value) {
  // PMIx copies; it only wants a pointer that is not const.
  std::string copy(value);
  pmix_value_t packed;
  PMIX_VALUE_CONSTRUCT(&packed);
  packed.type = PMIX_BYTE_OBJECT;
  packed.data.bo.bytes = copy.data();
  packed.data.bo.size = copy.size();
  const pmix_status_t status = PMIx_Put(PMIX_GLOBAL, full.c_str(), &packed);
  if (status != PMIX_SUCCESS) throw Error(Errc::launcher, "PMIx_Put: " + pmix_text(status));
}

void PmixStore::put(std::string_view key, std::string_view value) {
  const std::lock_guard hold(lock_);
  int& generation = put_[std::string(key)];
  put_value(full_key(key, generation + 1), value);
  ++generation;
  put_since_commit_ = true;
  if (cards_) cards_->put(key, value);
}

/// One generation of what `from` published, or nothing.
std::optional<std::string> PmixStore::fetch(Rank from, const std::string& full, Asked whom) const {
  pmix_info_t directive;
  int seconds = kFarGetSeconds;
  if (whom == Asked::process) {
    PMIX_INFO_LOAD(&directive, PMIX_OPTIONAL, nullptr, PMIX_BOOL);
  } else if (whom == Asked::server) {
    PMIX_INFO_LOAD(&directive, PMIX_IMMEDIATE, nullptr, PMIX_BOOL);
  } else {
    PMIX_INFO_LOAD(&directive, PMIX_TIMEOUT, &seconds, PMIX_INT);
  }
  pmix_proc_t source = me_;
  source.rank = static_cast<pmix_rank_t>(from.value);
  pmix_value_t* raw = nullptr;
  const pmix_status_t status = PMIx_Get(&source, full.c_str(), &directive, 1, &raw);
  const PmixValue value(status == PMIX_SUCCESS ? raw : nullptr);
  if (status == PMIX_ERR_NOT_FOUND || status == PMIX_ERR_TIMEOUT) return std::nullopt;
  // What PRRTE says instead of either.
  if (status == PMIX_ERROR && whom == Asked::owner && indexed_) return std::nullopt;
  if (status != PMIX_SUCCESS || value->type != PMIX_BYTE_OBJECT)
    throw Error(Errc::launcher, fmt::format("PMIx_Get of '{}' of rank {}: {}", full, from.value,
                                            pmix_text(status)));
  if (value->data.bo.size == 0) return std::string();
  return std::string(value->data.bo.bytes, value->data.bo.size);
}

std::optional<std::string> PmixStore::on_card(Rank from, std::string_view key) const {
  const auto place = std::lower_bound(near_.begin(), near_.end(), from.value);
  // What this rank put is in this process, also before its fence.
  const bool own = from.value == static_cast<int>(me_.rank);
  if (!cards_ || own || place == near_.end() || *place != from.value) return std::nullopt;
  return cards_->find(static_cast<int>(place - near_.begin()), key);
}

/// What a rank of another host is known to have published; nothing, after a while, if it left.
std::optional<std::string> PmixStore::fetch_far(Rank from, const std::string& full) const {
  for (const Asked whom : {Asked::process, Asked::server, Asked::owner})
    if (std::optional<std::string> found = fetch(from, full, whom)) return found;
  return std::nullopt;
}

std::string PmixStore::get_by_index(Rank from, std::string_view key) {
  Index last;
  uint64_t now = 0;
  {
    std::unique_lock hold(lock_);
    // Who has ended this fence already may have been heard of, and have published before it.
    fence_ended_.wait_for(hold, kFenceWait, [this] { return !in_fence_; });
    now = fences_;
    if (const auto found = indexes_.find(from.value); found != indexes_.end()) last = found->second;
  }
  const auto fetched = [&](const std::string& full) {
    std::optional<std::string> found = fetch_far(from, full);
    if (found) return *std::move(found);
    throw Error(Errc::no_such_peer,
                fmt::format("get: the launcher finds nothing of rank {}: it left the job, or died",
                            from.value));
  };
  if (last.fence != now) {
    last = {now, fetched(index_key(now))};
    const std::lock_guard hold(lock_);
    indexes_[from.value] = last;
  }
  const int newest = newest_in(last.text, key);
  if (newest == 0)
    throw Error(Errc::no_such_peer,
                fmt::format("get: rank {} never published '{}'", from.value, key));
  return fetched(full_key(key, newest));
}

/// While no fence ended since the last fetch from the rank, what is here is all there is; after
/// that the server is asked for a newer publication.
std::string PmixStore::get(Rank from, std::string_view key) {
  if (from.value < 0 || from.value >= size_)
    throw Error(Errc::no_such_peer, fmt::format("get: rank {} of a job of {}", from.value, size_));
  if (std::optional<std::string> found = on_card(from, key)) return *std::move(found);
  if (indexed_ && !is_near(from)) return get_by_index(from, key);
  bool fresh = false;
  uint64_t now = 0;
  {
    const std::lock_guard hold(lock_);
    now = fences_;
    const auto last = fetched_at_.find(from.value);
    fresh = last != fetched_at_.end() && last->second == now;
  }
  // A rank of this host committed to this host's server before its fence ended: if the value is
  // not there now, it was never published. A far one's has to be fetched.
  const Asked whom = is_near(from) ? Asked::server : Asked::owner;
  const auto find = [&](int generation) {
    const std::string full = full_key(key, generation);
    std::optional<std::string> found = fetch(from, full, Asked::process);
    if (found || fresh) return found;
    found = fetch(from, full, whom);
    fresh = found.has_value();
    return found;
  };
  std::optional<std::string> newest = find(1);
  if (!newest)
    throw Error(Errc::no_such_peer,
                fmt::format("get: rank {} never published '{}'", from.value, key));
  for (int generation = 2;; ++generation) {
    std::optional<std::string> newer = find(generation);
    if (!newer) break;
    newest = std::move(newer);
  }
  if (fresh) {
    const std::lock_guard hold(lock_);
    fetched_at_[from.value] = now;
  }
  return *std::move(newest);
}

void PmixStore::commit() {
  const std::lock_guard hold(lock_);
  in_fence_ = true;
  if (indexed_) {
    put_value(index_key(fences_ + 1), index());
    put_since_commit_ = true;
  }
  if (std::exchange(put_since_commit_, false)) {
    const pmix_status_t status = PMIx_Commit();
    if (status != PMIX_SUCCESS) throw Error(Errc::launcher, "PMIx_Commit: " + pmix_text(status));
    if (cards_) cards_->publish();
  }
  if (cards_) cards_->come_to_fence();
}

std::optional<int> PmixStore::absent() const {
  const std::optional<int> place = cards_ ? cards_->absent() : std::nullopt;
  if (!place) return std::nullopt;
  return near_[static_cast<std::size_t>(*place)];
}

void PmixStore::end_fence(bool well) {
  const std::lock_guard hold(lock_);
  if (well) ++fences_;
  in_fence_ = false;
  fence_ended_.notify_all();
}

}  // namespace weft::fabric
