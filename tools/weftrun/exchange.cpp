// What the ranks of one host exchange with those of others through their launchers.
#include "weftrun/exchange.hpp"

#include <pmix_common.h>
#include <sys/eventfd.h>

#include <utility>

namespace weft::run {

Exchange::Exchange(const JobSpec& spec, int member, Ways ways)
    : spec_(spec),
      member_(member),
      ways_(std::move(ways)),
      branches_(Tree{spec.members(), spec.degree}.children(member) +
                (spec.node_of_member(member) >= 0 ? 1 : 0)),
      answers_(std::make_shared<Answers>()) {
  answers_->bell = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

void Exchange::from_server(PmixServer::Event event) {
  if (event.kind == PmixServer::Event::fence) {
    if (incomplete_) return event.answer(PMIX_ERR_PROC_TERM_WO_SYNC, {});
    const uint64_t number = fences_here_++;
    Fence& fence = fences_[number];
    fence.data += event.text;
    fence.answer = std::move(event.answer);
    return came(number);
  }
  if (dead_.contains(event.rank) || event.rank >= spec_.ranks())
    return event.answer(PMIX_ERR_NOT_FOUND, {});
  const uint64_t number = questions_asked_++;
  questions_.emplace(number, Question{event.rank, std::move(event.answer)});
  ways_.to(spec_.member_of_rank(event.rank),
           {.say = Say::modex_ask, .member = member_, .rank = event.rank, .number = number});
}

void Exchange::fence_in(const Message& message) {
  if (incomplete_) return;
  Fence& fence = fences_[message.number];
  fence.well &= message.value == 0;
  fence.data += message.text;
  came(message.number);
}

void Exchange::came(uint64_t number) {
  Fence& fence = fences_[number];
  if (++fence.came < branches_) return;
  std::string data = std::exchange(fence.data, {});
  // What cannot be sent was not collected; whoever asked for it, on whichever host, hears so.
  const bool well = fence.well && data.size() <= kMostText;
  if (!well) data.clear();
  const int value = well ? 0 : 1;
  if (member_ != 0)
    return ways_.up(
        {.say = Say::fence_in, .value = value, .number = number, .text = std::move(data)});
  const Message out{
      .say = Say::fence_out, .value = value, .number = number, .text = std::move(data)};
  ways_.down(out);
  fence_out(out);
}

void Exchange::fence_out(const Message& message) {
  end_fence(message.number, message.value == 0, message.text);
}

void Exchange::end_fence(uint64_t number, bool well, const std::string& data) {
  const auto found = fences_.find(number);
  if (found == fences_.end()) return;
  const PmixServer::Answer answer = std::move(found->second.answer);
  fences_.erase(found);
  if (answer) answer(well ? PMIX_SUCCESS : PMIX_ERR_PROC_TERM_WO_SYNC, data);
}

void Exchange::modex_ask(const Message& message, PmixServer& server) {
  if (spec_.member_of_rank(message.rank) != member_) return;
  server.request(message.rank, [answers = answers_, asker = message.member,
                                number = message.number](int status, const std::string& bytes) {
    const bool fits = bytes.size() <= kMostText;
    const std::lock_guard hold(answers->lock);
    answers->ready.push_back({.say = Say::modex_answer,
                              .member = asker,
                              .value = fits ? status : PMIX_ERR_NOT_FOUND,
                              .number = number,
                              .text = fits ? bytes : std::string()});
    eventfd_write(answers->bell.get(), 1);
  });
}

void Exchange::serve() {
  eventfd_t rung = 0;
  eventfd_read(answers_->bell.get(), &rung);
  std::vector<Message> ready;
  {
    const std::lock_guard hold(answers_->lock);
    ready.swap(answers_->ready);
  }
  for (const Message& message : ready) ways_.to(message.member, message);
}

void Exchange::modex_answer(const Message& message) {
  const auto found = questions_.find(message.number);
  if (found == questions_.end()) return;
  const PmixServer::Answer answer = std::move(found->second.answer);
  questions_.erase(found);
  answer(message.value, message.text);
}

void Exchange::rank_gone(int rank, bool dead) {
  incomplete_ = true;
  while (!fences_.empty()) end_fence(fences_.begin()->first, false, {});
  if (!dead) return;
  dead_.insert(rank);
  for (auto question = questions_.begin(); question != questions_.end();) {
    if (question->second.rank != rank) {
      ++question;
      continue;
    }
    question->second.answer(PMIX_ERR_NOT_FOUND, {});
    question = questions_.erase(question);
  }
}

}  // namespace weft::run
