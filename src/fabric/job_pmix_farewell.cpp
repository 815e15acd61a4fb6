#include "fabric/job_pmix_farewell.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

namespace weft::fabric {
namespace {

/// A launcher that is going away itself shall not keep a rank that leaves.
constexpr int kTimeoutSeconds = 5;
/// Over several hosts PRRTE 5.0.11 now and then answers a look-up never, whatever its time limit.
constexpr int kTries = 3;

/// What the launcher says to one request: owned by who waits and by PMIx's callback, which may
/// come later, or never.
struct Answer {
  std::mutex lock;
  std::condition_variable came;
  std::optional<pmix_status_t> status;  ///< under the lock, as is `who`
  std::optional<int> who;
  // What was asked; PMIx may look at it until it answers.
  std::string key;
  std::array<char*, 2> keys{};
  std::array<pmix_info_t, 3> infos{};

  void give(pmix_status_t what, const pmix_pdata_t* found) {
    const std::lock_guard hold(lock);
    status = what;
    if (found != nullptr && found->value.type == PMIX_PROC_RANK)
      who = static_cast<int>(found->value.data.rank);
    came.notify_all();
  }
};
using Shared = std::shared_ptr<Answer>;

void on_done(pmix_status_t status, void* object) {
  const std::unique_ptr<Shared> answer(static_cast<Shared*>(object));
  (*answer)->give(status, nullptr);
}

void on_found(pmix_status_t status, pmix_pdata_t data[], std::size_t count, void* object) {
  const std::unique_ptr<Shared> answer(static_cast<Shared*>(object));
  (*answer)->give(status, status == PMIX_SUCCESS && count > 0 ? data : nullptr);
}

/// Makes a request about a key, and waits for its answer for so long. `request`: given the answer,
/// where its arguments stay, and what the callback gets.
template <typename Request>
Shared ask(std::string key, const Request& request) {
  constexpr pmix_data_range_t kRange = PMIX_RANGE_NAMESPACE;
  constexpr int kSeconds = kTimeoutSeconds;
  auto answer = std::make_shared<Answer>();
  answer->key = std::move(key);
  answer->keys = {answer->key.data(), nullptr};
  PMIX_INFO_LOAD(&answer->infos[0], PMIX_RANGE, &kRange, PMIX_DATA_RANGE);
  PMIX_INFO_LOAD(&answer->infos[1], PMIX_TIMEOUT, &kSeconds, PMIX_INT);
  auto for_callback = std::make_unique<Shared>(answer);
  const pmix_status_t asked = request(*answer, for_callback.get());
  if (asked != PMIX_SUCCESS) {
    answer->status = asked;
    return answer;
  }
  [[maybe_unused]] const auto* handed_over = for_callback.release();
  std::unique_lock hold(answer->lock);
  answer->came.wait_for(hold, std::chrono::seconds(kTimeoutSeconds),
                        [&] { return answer->status.has_value(); });
  return answer;
}

}  // namespace

/// Publications are a launcher's, not a job's: the job's name is in the key.
std::string PmixFarewell::key_of(const pmix_proc_t& me, uint64_t fences) {
  return fmt::format("weft.left.{}.{}", fences, me.nspace);
}

void PmixFarewell::leave(uint64_t fences) const noexcept {
  if (silent_.load(std::memory_order_relaxed)) return;
  try {
    std::string key = key_of(me_, fences);
    if (key.size() > PMIX_MAX_KEYLEN) return;
    ask(std::move(key), [&](Answer& asked, void* object) {
      PMIX_INFO_LOAD(&asked.infos[2], asked.key.c_str(), &me_.rank, PMIX_PROC_RANK);
      return PMIx_Publish_nb(asked.infos.data(), asked.infos.size(), on_done, object);
    });
  } catch (const std::exception&) {
    // No memory: nobody is told.
  }
}

std::optional<int> PmixFarewell::missing(uint64_t fences) {
  if (silent_.load(std::memory_order_relaxed)) return std::nullopt;
  const std::string key = key_of(me_, fences - 1);
  if (key.size() > PMIX_MAX_KEYLEN) return std::nullopt;
  for (int tries = 0; tries < kTries; ++tries) {
    const Shared answer = ask(key, [](Answer& asked, void* object) {
      return PMIx_Lookup_nb(asked.keys.data(), asked.infos.data(), 2, on_found, object);
    });
    const std::lock_guard hold(answer->lock);
    if (!answer->status) continue;
    if (answer->status == PMIX_ERR_NOT_SUPPORTED) silent_.store(true, std::memory_order_relaxed);
    return answer->who;
  }
  return std::nullopt;
}

}  // namespace weft::fabric
