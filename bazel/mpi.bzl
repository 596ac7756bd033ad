"""capstan_mpi_test: one doctest program, run under mpirun at several numbers of ranks."""

def capstan_mpi_test(name, srcs, deps = [], data = [], np = [1, 2, 3, 4, 5], size = "small", tags = [], **kwargs):
    """Builds srcs with tests/testing's mpi_main once and runs it as NAME_np1, NAME_np2 and so on.

    Args:
      name: a test suite of all of them.
      srcs: sources with doctest test cases; every rank runs the same ones in the same order.
      deps: libraries under test; doctest and MPI come by themselves.
      data: files that the tests read.
      np: numbers of ranks.
      size: Bazel's size of each run.
      tags: more tags of each run.
      **kwargs: to each run, for example `args`.
    """
    program = name + "_program"
    native.cc_binary(
        name = program,
        testonly = True,
        srcs = srcs,
        data = data,
        deps = deps + ["@capstan//tests/testing:mpi_main"],
    )
    for n in np:
        native.sh_test(
            name = "%s_np%d" % (name, n),
            srcs = ["@capstan//tools:mpirun.sh"],
            args = ["-np", str(n), "$(rootpath :%s)" % program],
            data = [":" + program],
            size = size,
            tags = tags + ["mpi", "cpu:%d" % n],
            **kwargs
        )
    native.test_suite(
        name = name,
        tests = ["%s_np%d" % (name, n) for n in np],
    )
