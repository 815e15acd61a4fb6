// What ranks publish and ask for, over PMIx_Put and PMIx_Get.
#include "fabric/job_pmix_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "fabric/job_pmix_news.hpp"

namespace weft::fabric {
namespace {

/// In front of every key, because PMIx keeps some names to itself.
constexpr std::string_view kKeyPrefix = "weft:";
/// How long `get` waits for a launcher of several hosts to fetch what a far rank published.
constexpr int kFarGetSeconds = 30;

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

void PmixStore::put(std::string_view key, std::string_view value) {
  // PMIx copies; it only wants a pointer that is not const.
  std::string copy(value);
  pmix_value_t packed;
  PMIX_VALUE_CONSTRUCT(&packed);
  packed.type = PMIX_BYTE_OBJECT;
  packed.data.bo.bytes = copy.data();
  packed.data.bo.size = copy.size();
  const std::lock_guard hold(lock_);
  int& generation = put_[std::string(key)];
  const std::string full = full_key(key, generation + 1);
  const pmix_status_t status = PMIx_Put(PMIX_GLOBAL, full.c_str(), &packed);
  if (status != PMIX_SUCCESS) throw Error(Errc::launcher, "PMIx_Put: " + pmix_text(status));
  ++generation;
  put_since_commit_ = true;
  if (cards_) cards_->put(key, value);
}

/// One generation of what `from` published, or nothing. `here`: do not ask the server.
std::optional<std::string> PmixStore::fetch(Rank from, const std::string& full, bool here) const {
  // A rank of this host committed to this host's server before its fence ended: if the value is
  // not there now, it was never published. A far one's has to be fetched.
  pmix_info_t directive;
  int seconds = kFarGetSeconds;
  if (here) {
    PMIX_INFO_LOAD(&directive, PMIX_OPTIONAL, nullptr, PMIX_BOOL);
  } else if (is_near(from)) {
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

/// While no fence ended since the last fetch from the rank, what is here is all there is; after
/// that the server is asked for a newer publication.
std::string PmixStore::get(Rank from, std::string_view key) {
  if (from.value < 0 || from.value >= size_)
    throw Error(Errc::no_such_peer, fmt::format("get: rank {} of a job of {}", from.value, size_));
  if (std::optional<std::string> found = on_card(from, key)) return *std::move(found);
  bool fresh = false;
  uint64_t now = 0;
  {
    const std::lock_guard hold(lock_);
    now = fences_;
    const auto last = fetched_at_.find(from.value);
    fresh = last != fetched_at_.end() && last->second == now;
  }
  const auto find = [&](int generation) {
    const std::string full = full_key(key, generation);
    std::optional<std::string> found = fetch(from, full, true);
    const bool asks = generation == 1 || says_no_ || is_near(from);
    if (found || fresh || !asks) return found;
    found = fetch(from, full, false);
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
  if (!std::exchange(put_since_commit_, false)) return;
  const pmix_status_t status = PMIx_Commit();
  if (status != PMIX_SUCCESS) throw Error(Errc::launcher, "PMIx_Commit: " + pmix_text(status));
  if (cards_) cards_->publish();
}

void PmixStore::count_fence() {
  const std::lock_guard hold(lock_);
  ++fences_;
}

}  // namespace weft::fabric
