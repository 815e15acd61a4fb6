// Info objects, before, between and after.
#include <cstring>
#include <filesystem>
#include <vector>

#include "check.hpp"

namespace {

std::string value_of(MPI_Info info, const char* key) {
  int length = 0;
  int found = -1;
  WEFT_CHECK(MPI_Info_get_string(info, key, &length, nullptr, &found) == MPI_SUCCESS);
  if (found == 0) return "(none)";
  std::vector<char> value(static_cast<std::size_t>(length));
  WEFT_CHECK(MPI_Info_get_string(info, key, &length, value.data(), &found) == MPI_SUCCESS);
  WEFT_CHECK(length == static_cast<int>(value.size()) && found == 1);
  return value.data();
}

std::string key_of(MPI_Info info, int n) {
  char key[MPI_MAX_INFO_KEY];
  WEFT_CHECK(MPI_Info_get_nthkey(info, n, key) == MPI_SUCCESS);
  return key;
}

int count(MPI_Info info) {
  int keys = -1;
  MPI_Info_get_nkeys(info, &keys);
  return keys;
}

void keep_and_find() {
  MPI_Info info;
  WEFT_CHECK(MPI_Info_create(&info) == MPI_SUCCESS && info != MPI_INFO_NULL && count(info) == 0);
  MPI_Info_set(info, "zebra", "1");
  MPI_Info_set(info, "ant", "two words");
  MPI_Info_set(info, "zebra", "3");
  WEFT_CHECK(count(info) == 2 && key_of(info, 0) == "zebra" && key_of(info, 1) == "ant");
  WEFT_CHECK(value_of(info, "zebra") == "3" && value_of(info, "ant") == "two words");
  WEFT_CHECK(value_of(info, "Ant") == "(none)");

  char small[4] = "???";
  int length = sizeof small;
  int found = 0;
  MPI_Info_get_string(info, "ant", &length, small, &found);
  WEFT_CHECK(found == 1 && length == 10 && std::strcmp(small, "two") == 0);
  char old[16];
  MPI_Info_get(info, "ant", 3, old, &found);
  WEFT_CHECK(found == 1 && std::strcmp(old, "two") == 0);
  MPI_Info_get_valuelen(info, "ant", &length, &found);
  WEFT_CHECK(found == 1 && length == 9);

  MPI_Info copy;
  MPI_Info_dup(info, &copy);
  WEFT_CHECK(MPI_Info_delete(info, "zebra") == MPI_SUCCESS && count(info) == 1);
  WEFT_CHECK(count(copy) == 2 && value_of(copy, "zebra") == "3");
  MPI_Info_free(&copy);
  WEFT_CHECK(copy == MPI_INFO_NULL);
  MPI_Info_free(&info);
}

std::string folder_at_start;

void started() {
  WEFT_CHECK(value_of(MPI_INFO_ENV, "command").find("info") != std::string::npos);
  MPI_Info info;
  WEFT_CHECK(MPI_Info_create_env(0, nullptr, &info) == MPI_SUCCESS);
  WEFT_CHECK(value_of(info, "wdir") != "(none)");
  WEFT_CHECK(value_of(info, "wdir") == folder_at_start);
  MPI_Info_free(&info);
}

void wrong() {
  MPI_Info info;
  MPI_Info_create(&info);
  const std::string long_key(MPI_MAX_INFO_KEY, 'k');
  const std::string long_value(MPI_MAX_INFO_VAL, 'v');
  WEFT_CHECK_CLASS(MPI_ERR_INFO_KEY, MPI_Info_set(info, long_key.c_str(), "v"));
  WEFT_CHECK_CLASS(MPI_ERR_INFO_KEY, MPI_Info_set(info, "", "v"));
  WEFT_CHECK_CLASS(MPI_ERR_INFO_VALUE, MPI_Info_set(info, "k", long_value.c_str()));
  WEFT_CHECK_CLASS(MPI_ERR_INFO_NOKEY, MPI_Info_delete(info, "k"));
  WEFT_CHECK_CLASS(MPI_ERR_INFO, MPI_Info_set(MPI_INFO_NULL, "k", "v"));
  WEFT_CHECK_CLASS(MPI_ERR_INFO, MPI_Info_set(MPI_INFO_ENV, "k", "v"));
  char key[MPI_MAX_INFO_KEY];
  WEFT_CHECK_CLASS(MPI_ERR_ARG, MPI_Info_get_nthkey(info, 0, key));
  MPI_Info freed = info;
  MPI_Info_free(&info);
  WEFT_CHECK_CLASS(MPI_ERR_INFO, MPI_Info_set(freed, "k", "v"));
  WEFT_CHECK_CLASS(MPI_ERR_INFO, MPI_Info_free(&freed));
}

/// As many as a table holds; then it says so, and goes on when some are gone.
void many() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  std::vector<MPI_Info> infos;
  MPI_Info one;
  int code = MPI_SUCCESS;
  while (infos.size() < 1 << 20 && (code = MPI_Info_create(&one)) == MPI_SUCCESS)
    infos.push_back(one);
  WEFT_CHECK(code == MPI_ERR_OTHER && infos.size() > 500'000);
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  WEFT_CHECK(std::strstr(text, " objects of this kind exist already, as many as there may be") !=
             nullptr);
  MPI_Info_free(&infos.back());
  WEFT_CHECK(MPI_Info_create(&infos.back()) == MPI_SUCCESS);
  for (MPI_Info& each : infos) MPI_Info_free(&each);
}

}  // namespace

int main(int argc, char** argv) {
  folder_at_start = std::filesystem::current_path().string();
  std::filesystem::current_path("/");  // before anything is asked
  keep_and_find();
  started();
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  keep_and_find();
  started();
  wrong();
  many();
  MPI_Finalize();
  keep_and_find();
  return result();
}
