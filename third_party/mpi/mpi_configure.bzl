"""mpi_configure: @mpi//:mpi (the library) and @mpi//:mpirun (the launcher) of the installed MPI.

The flags come from MPI's own compiler wrapper, so any Open MPI works; MPICC and MPIRUN choose another one.
"""

_BUILD = """\
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "mpi",
    hdrs = glob({globs}),
    defines = ["OMPI_SKIP_MPICXX"],
    includes = {includes},
    linkopts = {linkopts},
)

exports_files(["mpirun"])
"""

def _showme(rctx, mpicc, what):
    result = rctx.execute([mpicc, "--showme:" + what])
    if result.return_code != 0:
        fail("%s --showme:%s failed; Capstan needs Open MPI's mpicc.\n%s" % (mpicc, what, result.stderr))
    return [word for word in result.stdout.strip().split(" ") if word]

def _mpi_configure_impl(rctx):
    mpicc = rctx.os.environ.get("MPICC") or rctx.which("mpicc")
    mpirun = rctx.os.environ.get("MPIRUN") or rctx.which("mpirun")
    if not mpicc or not mpirun:
        fail("\n\nMPI not found: no mpicc or no mpirun in PATH.\n" +
             "Install it with: apt-get install libopenmpi-dev openmpi-bin (or set MPICC and MPIRUN)\n")

    includes = []
    for i, folder in enumerate(_showme(rctx, mpicc, "incdirs")):
        includes.append("include%d" % i)
        rctx.symlink(folder, includes[-1])
    linkopts = []
    for folder in _showme(rctx, mpicc, "libdirs"):
        linkopts += ["-L" + folder, "-Wl,-rpath," + folder]
    linkopts += ["-l" + library for library in _showme(rctx, mpicc, "libs")]

    rctx.symlink(mpirun, "mpirun")
    rctx.file("BUILD", _BUILD.format(
        globs = repr([i + "/**" for i in includes]),
        includes = repr(includes),
        linkopts = repr(linkopts),
    ))

mpi_configure = repository_rule(
    implementation = _mpi_configure_impl,
    environ = ["MPICC", "MPIRUN", "PATH"],
    local = True,
)
