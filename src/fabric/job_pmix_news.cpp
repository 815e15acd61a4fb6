// What happened to a PMIx job, as PMIx's own thread hears it.
#include "fabric/job_pmix_news.hpp"

#include <fmt/format.h>

#include <chrono>
#include <iterator>
#include <utility>

#include "weft/base/error.hpp"

namespace weft::fabric {
namespace {

/// How long a failed fence waits to be told who died.
constexpr std::chrono::seconds kCauseWait{2};
/// How often a fence that takes long looks whether somebody left.
constexpr std::chrono::seconds kLookAgain{1};

}  // namespace

/// One PMIx_Fence_nb: owned by the waiting caller and by PMIx's callback, because a caller that
/// learns of a death leaves before the callback comes, if it ever does.
struct PmixNews::FenceWait {
  std::shared_ptr<PmixNews> news;
  pmix_info_t collect;                  ///< kept as long as PMIx may look at it
  std::optional<pmix_status_t> status;  ///< under news->lock_
};

void PmixNews::on_fence_end(pmix_status_t status, void* object) {
  const std::unique_ptr<std::shared_ptr<FenceWait>> wait(
      static_cast<std::shared_ptr<FenceWait>*>(object));
  PmixNews& news = *(*wait)->news;
  const std::lock_guard hold(news.lock_);
  (*wait)->status = status;
  news.changed_.notify_all();
}

void PmixNews::on_event(std::size_t, pmix_status_t status, const pmix_proc_t* source,
                        pmix_info_t info[], std::size_t ninfo, pmix_info_t*, std::size_t,
                        pmix_event_notification_cbfunc_fn_t done, void* done_data) {
  PmixNews* news = nullptr;
  const pmix_proc_t* affected = source;
  std::string text;
  for (std::size_t i = 0; i < ninfo; ++i) {
    if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_RETURN_OBJECT)) {
      news = static_cast<PmixNews*>(info[i].value.data.ptr);
    } else if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC)) {
      affected = info[i].value.data.proc;
    } else if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_TEXT_MESSAGE)) {
      if (info[i].value.data.string != nullptr) text = info[i].value.data.string;
    }
  }
  if (news != nullptr)
    news->hear(status, affected == nullptr ? -1 : static_cast<int>(affected->rank), text);
  if (done != nullptr) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, done_data);
}

void PmixNews::hear(pmix_status_t status, int rank, std::string text) {
  Told told;
  {
    const std::lock_guard hold(lock_);
    if (text.empty()) text = pmix_text(status);
    if (status == PMIX_ERR_LOST_CONNECTION) {
      launcher_lost_ = true;
    } else if (rank >= 0 && status == PMIX_EVENT_PROC_TERMINATED) {
      left_.emplace(rank, text);
    } else if (rank >= 0 && dead_.emplace(rank, text).second) {
      told = told_;
      if (told) ++telling_;
    }
    changed_.notify_all();
  }
  if (!told) return;
  told(Rank{rank}, std::move(text));
  const std::lock_guard hold(lock_);
  --telling_;
  changed_.notify_all();
}

void PmixNews::subscribe() {
  pmix_status_t codes[] = {PMIX_ERR_LOST_CONNECTION,     PMIX_ERR_PROC_ABORTED,
                           PMIX_ERR_PROC_ABORTED_BY_SIG, PMIX_ERR_PROC_TERM_WO_SYNC,
                           PMIX_ERR_PROC_KILLED_BY_CMD,  PMIX_EVENT_PROC_TERMINATED};
  pmix_info_t object;
  PMIX_INFO_LOAD(&object, PMIX_EVENT_RETURN_OBJECT, this, PMIX_POINTER);
  const pmix_status_t status =
      PMIx_Register_event_handler(codes, std::size(codes), &object, 1, on_event, nullptr, nullptr);
  if (status < 0) throw Error(Errc::launcher, "PMIx_Register_event_handler: " + pmix_text(status));
}

void PmixNews::on_death(const Told& told) {
  std::map<int, std::string> earlier;
  {
    std::unique_lock hold(lock_);
    told_ = told;
    earlier = dead_;
    changed_.wait(hold, [this] { return telling_ == 0; });
  }
  if (told)
    for (auto& [rank, cause] : earlier) told(Rank{rank}, std::move(cause));
}

void PmixNews::fence(const std::shared_ptr<PmixNews>& news, const Missing& left,
                     const Missing& absent, bool collect) {
  {
    std::unique_lock hold(news->lock_);
    if (news->bad()) news->throw_fence_error(hold, PMIX_SUCCESS);
  }
  auto wait = std::make_shared<FenceWait>(FenceWait{news, {}, std::nullopt});
  PMIX_INFO_LOAD(&wait->collect, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
  auto for_callback = std::make_unique<std::shared_ptr<FenceWait>>(wait);
  const pmix_status_t asked = PMIx_Fence_nb(nullptr, 0, collect ? &wait->collect : nullptr,
                                            collect ? 1 : 0, on_fence_end, for_callback.get());
  std::unique_lock hold(news->lock_);
  if (asked == PMIX_OPERATION_SUCCEEDED) {
    wait->status = PMIX_SUCCESS;
  } else if (asked != PMIX_SUCCESS) {
    news->throw_fence_error(hold, asked);
  } else {
    [[maybe_unused]] const auto* handed_over = for_callback.release();
  }
  const auto over = [&] { return wait->status || news->bad(); };
  while (!over()) {
    if (!left) {
      news->changed_.wait(hold, over);
    } else if (!news->changed_.wait_for(hold, kLookAgain, over)) {
      news->somebody_left(hold, left);
    }
  }
  std::optional<int> not_here;
  if (wait->status == PMIX_SUCCESS && !news->somebody_left(hold, left)) {
    not_here = absent();  // without waiting for anybody
    if (!not_here) return;
  }
  news->throw_fence_error(hold, wait->status.value_or(PMIX_SUCCESS), not_here);
}

/// Asks, without the lock, and notes the answer.
bool PmixNews::somebody_left(std::unique_lock<std::mutex>& hold, const Missing& left) {
  if (!left) return false;
  hold.unlock();
  const std::optional<int> gone = left();
  hold.lock();
  if (gone) left_.emplace(*gone, "left the job");
  return gone.has_value();
}

/// Throws what best says why a fence cannot end well. `status` is what PMIx answered, if it did;
/// `absent` a rank that it did not wait for.
void PmixNews::throw_fence_error(std::unique_lock<std::mutex>& hold, pmix_status_t status,
                                 std::optional<int> absent) {
  // The fence may fail a moment before the news of why it did arrives.
  changed_.wait_for(hold, kCauseWait, [this] { return bad(); });
  for (const auto* ranks : {&dead_, &left_}) {
    if (ranks->empty()) continue;
    const auto& [rank, how] = *ranks->begin();
    throw Error(Errc::peer_died, fmt::format("fence: rank {} {}", rank, how));
  }
  if (absent)
    throw Error(Errc::peer_died, fmt::format("fence: PMIx ended it before rank {} came", *absent));
  if (status == PMIX_ERR_PARTIAL_SUCCESS || status == PMIX_ERR_PROC_TERM_WO_SYNC)
    throw Error(Errc::peer_died, "fence: a rank ended before it came");
  throw Error(Errc::launcher,
              launcher_lost_ ? "fence: the launcher went away" : "fence: " + pmix_text(status));
}

}  // namespace weft::fabric
