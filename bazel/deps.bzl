"""capstan_dependencies: every repository that Capstan needs, for Capstan's own WORKSPACE and for outside projects.

All of them are on the machine already, from the packages in tools/packages.txt: a build needs no network. A
repository that a project has declared before this call is left alone. third_party/README.md says why each
library is used.
"""

load("//third_party:local_files.bzl", "local_files")
load("//third_party:system_library.bzl", "system_library")
load("//third_party/cuda:cuda_configure.bzl", "cuda_configure")
load("//third_party/mpi:mpi_configure.bzl", "mpi_configure")

def _maybe(rule, name, **kwargs):
    if not native.existing_rule(name):
        rule(name = name, **kwargs)

def capstan_dependencies():
    _rule_sets()
    _libraries()

def _rule_sets():
    """What Bazel would download: Debian's packages of it, and two small repositories of our own."""
    _maybe(native.local_repository, "bazel_skylib", path = "/usr/share/bazel/tools/skylib")
    _maybe(native.local_repository, "platforms", path = "/usr/share/bazel/tools/platforms")
    _maybe(native.local_repository, "rules_java", path = "/usr/share/bazel/rules/java")
    _maybe(native.local_repository, "rules_proto", path = "/usr/share/bazel/rules/proto")
    _maybe(
        local_files,
        "rules_cc",
        files = {"@capstan//third_party/rules_cc:defs.bzl": "cc/defs.bzl"},
        texts = {"cc/BUILD": ""},
    )
    _maybe(
        local_files,
        "remote_coverage_tools",  # Bazel asks for this one before every test, and uses it only to measure coverage
        texts = {
            "none.sh": "exit 1\n",
            "BUILD": 'sh_binary(name = "coverage_report_generator", srcs = ["none.sh"], ' +
                     'visibility = ["//visibility:public"])\n',
        },
    )

def _libraries():
    _maybe(
        system_library,
        "eigen",
        root = "/usr/include/eigen3",
        headers = ["Eigen", "unsupported"],
        defines = ["EIGEN_MPL2_ONLY"],
        package = "libeigen3-dev",
    )
    _maybe(system_library, "fmt", headers = ["fmt"], linkopts = ["-lfmt"], package = "libfmt-dev")
    _maybe(system_library, "zlib", headers = ["zlib.h"], linkopts = ["-lz"], package = "zlib1g-dev")
    _maybe(
        system_library,
        "libpng",
        headers = ["png.h", "pngconf.h", "pnglibconf.h"],
        linkopts = ["-lpng"],
        package = "libpng-dev",
    )
    _maybe(
        system_library,
        "turbojpeg",
        headers = ["turbojpeg.h"],
        linkopts = ["-lturbojpeg"],
        package = "libturbojpeg0-dev",
    )
    _maybe(system_library, "pcre2", headers = ["pcre2.h"], linkopts = ["-lpcre2-8"], package = "libpcre2-dev")
    _maybe(system_library, "openssl", headers = ["openssl"], linkopts = ["-lcrypto"], package = "libssl-dev")
    _maybe(system_library, "nlohmann_json", headers = ["nlohmann"], package = "nlohmann-json3-dev")
    _maybe(system_library, "cli11", headers = ["CLI"], package = "libcli11-dev")
    _maybe(system_library, "doctest", headers = ["doctest"], package = "doctest-dev")
    _maybe(
        system_library,
        "rapidcheck",
        headers = ["rapidcheck.h", "rapidcheck"],
        linkopts = ["-lrapidcheck"],
        package = "librapidcheck-dev",
    )
    _maybe(mpi_configure, "mpi")
    _maybe(cuda_configure, "local_cuda")
