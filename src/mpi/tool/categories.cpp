// Categories of the tool interface: one for each room that has variables. MPI's has the counters.
#include <algorithm>
#include <iterator>
#include <span>

#include "mpi/abi/calls.hpp"
#include "mpi/counters.hpp"
#include "mpi/tool/tool.hpp"

namespace weft::mpi {
namespace tool {
namespace {

constexpr std::string_view kMpi = "mpi";

std::string_view room_of(const base::ConfigKey& key) {
  return key.key.substr(0, key.key.find('.'));
}

/// Their names, in the variables' order, which is alphabetical.
std::vector<std::string_view> categories() {
  std::vector<std::string_view> names;
  for (const base::ConfigKey* key : variables())
    if (names.empty() || names.back() != room_of(*key)) names.push_back(room_of(*key));
  return names;
}

std::string_view category(int index) {
  const auto names = categories();
  check_index(index, names.size());
  return names[static_cast<std::size_t>(index)];
}

std::vector<int> variables_of(std::string_view name) {
  std::vector<int> indices;
  for (std::size_t i = 0; i < variables().size(); ++i)
    if (room_of(*variables()[i]) == name) indices.push_back(static_cast<int>(i));
  return indices;
}

int counters_of(std::string_view name) {
  return name == kMpi ? static_cast<int>(counters().size()) : 0;
}

}  // namespace
}  // namespace tool

namespace calls {

using namespace tool;  // NOLINT(google-build-using-namespace)

void T_category_get_num(int* num_cat) {
  const Entered entered;
  put(num_cat, static_cast<int>(categories().size()));
}

void T_category_get_info(int cat_index, char* name, int* name_len, char* desc, int* desc_len,
                         int* num_cvars, int* num_pvars, int* num_categories) {
  const Entered entered;
  const std::string_view found = category(cat_index);
  put_text(found, name, name_len);
  put_text("Variables of weft's room '" + std::string(found) + "'.", desc, desc_len);
  put(num_cvars, static_cast<int>(variables_of(found).size()));
  put(num_pvars, counters_of(found));
  put(num_categories, 0);
}

void T_category_get_index(const char* name, int* cat_index) {
  const Entered entered;
  const auto names = categories();
  const auto found = name == nullptr ? names.end() : std::find(names.begin(), names.end(), name);
  if (found == names.end()) fail(MPI_T_ERR_INVALID_NAME, "no category has that name");
  put(cat_index, static_cast<int>(found - names.begin()));
}

void T_category_get_cvars(int cat_index, int len, int indices[]) {
  const Entered entered;
  const std::vector<int> found = variables_of(category(cat_index));
  const auto count =
      std::min<std::size_t>(found.size(), static_cast<std::size_t>(std::max(len, 0)));
  if (indices != nullptr) std::copy_n(found.begin(), count, indices);
}

void T_category_get_pvars(int cat_index, int len, int indices[]) {
  const Entered entered;
  const int count = std::min(counters_of(category(cat_index)), len);
  for (int i = 0; indices != nullptr && i < count; ++i) indices[i] = i;
}

void T_category_get_categories(int cat_index, int len, int indices[]) {
  (void)len;
  (void)indices;
  const Entered entered;
  (void)category(cat_index);
}

void T_category_get_num_events(int cat_index, int* num_events) {
  const Entered entered;
  (void)category(cat_index);
  put(num_events, 0);
}

void T_category_get_events(int cat_index, int len, int indices[]) {
  (void)len;
  (void)indices;
  const Entered entered;
  (void)category(cat_index);
}

void T_category_changed(int* update_number) {
  const Entered entered;
  // Counters come when MPI is initialized; nothing else changes.
  put(update_number, static_cast<int>(counters().size()));
}

}  // namespace calls
}  // namespace weft::mpi
