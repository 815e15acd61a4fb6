// A rank that speaks PMIx itself, as other libraries do: what weftrun must serve beyond what weft
// asks.
//
//   pmix_probe    a fence that collects data, after which every value is here without asking; then
//   values
//                 of a plain fence, asked for; a fence of half of the ranks of this host
#include <pmix.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

pmix_proc_t g_me;

void require(bool condition, const char* what, pmix_status_t status) {
  if (condition) return;
  std::fprintf(stderr, "pmix_probe: rank %u: %s: %s\n", g_me.rank, what, PMIx_Error_string(status));
  std::exit(1);  // NOLINT(concurrency-mt-unsafe)
}

void check(pmix_status_t status, const char* what) {
  require(status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED, what, status);
}

pmix_proc_t rank(uint32_t number) {
  pmix_proc_t named = g_me;
  named.rank = number;
  return named;
}

/// Long enough that all of them do not fit one packet of the network.
std::string value_of(uint32_t number, const std::string& key) {
  return key + std::to_string(number) + std::string(5000 + number, 'v');
}

void publish(const std::string& key) {
  std::string text = value_of(g_me.rank, key);
  pmix_value_t value;
  PMIX_VALUE_LOAD(&value, text.c_str(), PMIX_STRING);
  check(PMIx_Put(PMIX_GLOBAL, key.c_str(), &value), "PMIx_Put");
  PMIX_VALUE_DESTRUCT(&value);
  check(PMIx_Commit(), "PMIx_Commit");
}

/// `here`: only if it needs no question.
pmix_status_t look(uint32_t number, const std::string& key, bool here) {
  const pmix_proc_t who = rank(number);
  pmix_info_t directive;
  PMIX_INFO_LOAD(&directive, here ? PMIX_OPTIONAL : PMIX_IMMEDIATE, nullptr, PMIX_BOOL);
  pmix_value_t* value = nullptr;
  const pmix_status_t status = PMIx_Get(&who, key.c_str(), &directive, here ? 1 : 0, &value);
  if (status == PMIX_SUCCESS)
    require(value->type == PMIX_STRING && value_of(number, key) == value->data.string,
            "a wrong value", PMIX_ERROR);
  if (value != nullptr) PMIX_VALUE_RELEASE(value);
  return status;
}

uint32_t job_number(const char* key, const pmix_proc_t& of) {
  pmix_value_t* value = nullptr;
  check(PMIx_Get(&of, key, nullptr, 0, &value), key);
  const uint32_t number = value->type == PMIX_UINT16 ? value->data.uint16 : value->data.uint32;
  PMIX_VALUE_RELEASE(value);
  return number;
}

/// On this host.
bool is_near(uint32_t number) {
  const pmix_proc_t all = rank(PMIX_RANK_WILDCARD);
  pmix_value_t* value = nullptr;
  check(PMIx_Get(&all, PMIX_LOCAL_PEERS, nullptr, 0, &value), PMIX_LOCAL_PEERS);
  const std::string near = "," + std::string(value->data.string) + ",";
  PMIX_VALUE_RELEASE(value);
  return near.find("," + std::to_string(number) + ",") != std::string::npos;
}

}  // namespace

int main() {
  check(PMIx_Init(&g_me, nullptr, 0), "PMIx_Init");
  const pmix_proc_t all = rank(PMIX_RANK_WILDCARD);
  const uint32_t size = job_number(PMIX_JOB_SIZE, all);
  const uint32_t here = job_number(PMIX_LOCAL_SIZE, all);

  publish("collected");
  pmix_info_t collect;
  PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, nullptr, PMIX_BOOL);
  check(PMIx_Fence(nullptr, 0, &collect, 1), "PMIx_Fence");
  for (uint32_t other = 0; other < size; ++other)
    check(look(other, "collected", false), "a collected value");

  publish("asked");
  check(PMIx_Fence(nullptr, 0, nullptr, 0), "PMIx_Fence");
  for (uint32_t other = 0; other < size; ++other) {
    const pmix_status_t before = look(other, "asked", true);
    // Of a near rank it may have come along with what it published before.
    require(is_near(other) || before != PMIX_SUCCESS, "a value came unasked", before);
    check(look(other, "asked", false), "a value that was asked for");
  }

  // The launchers take part in fences of all ranks only; those of one host's ranks need none.
  const std::vector<pmix_proc_t> some{rank(0), rank(size - 1)};
  if (here < size && (g_me.rank == 0 || g_me.rank == size - 1)) {
    const pmix_status_t status = PMIx_Fence(some.data(), some.size(), nullptr, 0);
    require(status == PMIX_ERR_NOT_SUPPORTED, "a fence of some ranks of several hosts", status);
  }
  check(PMIx_Fence(nullptr, 0, nullptr, 0), "the last PMIx_Fence");
  check(PMIx_Finalize(nullptr, 0), "PMIx_Finalize");
  std::puts("good");
}
