#include "fabric/launch_signs.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <charconv>
#include <optional>

#include "fabric/job_wire.hpp"

namespace weft::fabric {
namespace {

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (bad != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// A launcher that may start processes without telling them how to join a job.
struct Starter {
  std::string_view name;
  const char* rank;
  const char* size;
  std::string_view instead;  ///< what would have made one job of them
};
// The size of Slurm's step and not of its job: the one process of a batch script is none of
// several.
constexpr Starter kStarters[] = {
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
     "start it with srun --mpi=pmix, or --mpi=pmi2 (srun --mpi=list shows what this Slurm has)"},
    {"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "its PMIX_ variables are missing: something in between removed them"},
    {"a PMI launcher", "PMI_RANK", "PMI_SIZE",
     "it set no PMI_FD: leave out Hydra's -pmi-port, ask for PMI-1 or PMIx, or start it with "
     "weftrun"},
    {"Hydra's mpiexec", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
     "its PMI_ variables are missing: something in between removed them"},
};

class Reader {
 public:
  explicit Reader(const Surroundings& around) : around_(around) {}

  bool has(const char* name) const { return around_.variable(name).found; }
  std::string text(const char* name) const { return around_.variable(name).value; }
  std::string pair(const char* name) const { return fmt::format("{}={}", name, text(name)); }

  std::string pmix_launcher() const {
    const std::string name = text("PMIX_NAMESPACE");
    if (name.starts_with(kNamespacePrefix) && has(kJobKeyVariable)) return "weftrun";
    if (name.starts_with("prterun-") || name.starts_with("prte-")) return "prterun";
    if (name.starts_with("slurm.")) return "srun";
    return "a PMIx launcher";
  }
  std::string pmi1_launcher() const {
    if (has("HYDI_CONTROL_FD") || has("I_MPI_HYDRA_BOOTSTRAP")) return "Hydra's mpiexec";
    if (has("SLURM_STEP_ID") && has("PMI_JOBID")) return "srun";
    return "a PMI-1 launcher";
  }
  bool pmi1_is_open() const { return around_.is_socket(text("PMI_FD")); }

 private:
  const Surroundings& around_;
};

void leave_out(LaunchSigns& signs, const Reader& read, std::initializer_list<const char*> names,
               std::string_view why) {
  for (const char* name : names)
    if (read.has(name)) signs.unused.push_back({read.pair(name), std::string(why)});
}

void look_for_starters(LaunchSigns& signs, const Reader& read) {
  for (const Starter& starter : kStarters) {
    const std::optional<int> size = number_in(read.text(starter.size));
    if (!size || *size < 2) continue;
    const std::string rank = read.text(starter.rank);
    signs.launcher = starter.name;
    signs.unused.push_back({read.pair(starter.size), "it tells no way to join the others"});
    signs.warning = fmt::format(
        "this is one of {} processes that {} started, but neither PMIx nor PMI-1 leads to the "
        "others: each is a job of one. If they shall be one job: {}",
        *size, starter.name, starter.instead);
    signs.warns = rank.empty() || rank == "0";
    return;
  }
}

}  // namespace

Surroundings surroundings() {
  return {base::environment, [](std::string_view descriptor) {
            struct stat what {};
            const std::optional<int> number = number_in(descriptor);
            return number && fstat(*number, &what) == 0 && S_ISSOCK(what.st_mode);
          }};
}

LaunchSigns read_launch_signs(const Surroundings& around) {
  const Reader read(around);
  LaunchSigns signs;
  const bool pmix = read.has("PMIX_RANK") && read.has("PMIX_NAMESPACE");
  const bool pmi1 = read.has("PMI_FD") && read.has("PMI_RANK") && read.has("PMI_SIZE");
  if (pmi1 && (!pmix || read.pmi1_is_open())) {
    signs.by = JoinBy::pmi1;
    signs.launcher = read.pmi1_launcher();
    for (const char* name : {"PMI_FD", "PMI_RANK", "PMI_SIZE"})
      signs.decided.push_back(read.pair(name));
    leave_out(signs, read, {"PMIX_NAMESPACE"}, "an outer launcher's: the socket of PMI_FD is open");
  } else if (pmix) {
    signs.by = JoinBy::pmix;
    signs.launcher = read.pmix_launcher();
    for (const char* name : {"PMIX_NAMESPACE", "PMIX_RANK"})
      signs.decided.push_back(read.pair(name));
    leave_out(signs, read, {"PMI_FD"}, "an outer launcher's: it is no open socket here");
  } else {
    leave_out(signs, read, {"PMIX_NAMESPACE", "PMIX_RANK"}, "PMIx needs both of its variables");
    leave_out(signs, read, {"PMI_FD", "PMI_PORT"}, "PMI-1 needs PMI_FD, PMI_RANK and PMI_SIZE");
    look_for_starters(signs, read);
  }
  return signs;
}

}  // namespace weft::fabric
