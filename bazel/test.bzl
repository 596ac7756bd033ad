"""capstan_test, capstan_script_test, and capstan_tests: a folder of tests where adding a file is enough."""

load(":mpi.bzl", "capstan_mpi_test")

def capstan_test(name, srcs, deps = [], size = "small", **kwargs):
    """A doctest program; tests/testing's main comes by itself."""
    native.cc_test(
        name = name,
        srcs = srcs,
        deps = deps + ["@capstan//tests/testing:main"],
        size = size,
        **kwargs
    )

def capstan_script_test(name, script, program, data = [], size = "small", tags = []):
    """A script that starts a program in several ways and looks at what comes of it.

    It is called with two arguments: tools/mpirun.sh (tools/ranks.sh lies beside it) and the program.
    """
    mpirun = "@capstan//tools:mpirun.sh"
    native.sh_test(
        name = name,
        srcs = [script],
        args = ["$(rootpath %s)" % mpirun, "$(rootpath %s)" % program],
        data = [mpirun, "@capstan//tools:ranks.sh", program] + data,
        size = size,
        tags = tags + ["cpu:2"],
    )

# Numbers of ranks for what spreads a model over them: odd ones, and some with several divisors.
RANKS_OF_LAYOUTS = [1, 2, 3, 4, 6, 8]

def capstan_tests(deps = [], programs = None, sizes = {}, np = [1, 2, 3, 4, 5]):
    """The tests of a folder and those below it, by the names of their files.

    - X_mpi_test.cc runs on each of `np` ranks (capstan_mpi_test).
    - Any other X_test.cc is a program of its own (capstan_test).
    - X_test.sh tests a program (capstan_script_test): that of Y_program.cc, where X is Y or begins with Y_, or else X
      of the package `programs`.

    Every test sees the headers of its folder, and finds the files of each `testdata/` at their path in the workspace.
    Scripts may source other scripts of the folder.

    Args:
      deps: the libraries under test.
      programs: the package of the programs under test.
      sizes: Bazel's size ("medium", "large") by the test's name, where it is not "small".
      np: numbers of ranks.
    """
    headers = native.glob(["**/*.h"])
    data = native.glob(["**/testdata/**"])
    own_programs = native.glob(["**/*_program.cc"])

    for source in native.glob(["**/*_test.cc"]):
        name = source[:-len(".cc")]
        size = sizes.get(name, "small")
        if name.endswith("_mpi_test"):
            capstan_mpi_test(name = name, srcs = [source] + headers, deps = deps, data = data, np = np, size = size)
        else:
            capstan_test(name = name, srcs = [source] + headers, deps = deps, data = data, size = size)

    for source in own_programs:
        native.cc_binary(
            name = source[:-len(".cc")],
            testonly = True,
            srcs = [source] + headers,
            deps = deps,
        )

    for script in native.glob(["**/*_test.sh"]):
        name = script[:-len(".sh")]
        tested = name[:-len("_test")]
        own = [p[:-len(".cc")] for p in own_programs if (tested + "_").startswith(p[:-len("program.cc")])]
        capstan_script_test(
            name = name,
            script = script,
            program = ":" + own[0] if own else "%s:%s" % (programs, tested),
            data = data + native.glob(["**/*.sh"], exclude = ["**/*_test.sh"]),
            size = sizes.get(name, "small"),
        )
