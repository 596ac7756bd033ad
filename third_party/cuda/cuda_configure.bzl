"""cuda_configure: @local_cuda, the installed CUDA toolkit. Only --config=cuda ever looks at this repository.

The toolkit is CUDA_HOME, CUDA_PATH or /usr/local/cuda. Programs link to the runtime libraries but never to
libcuda, the driver: a program linked to that would not even start on a machine without a GPU.
"""

_LIBRARIES = ["cudart", "cublas", "cublasLt", "cudnn", "nccl"]

_BUILD = """\
load("@capstan//bazel:cuda.bzl", "cuda_toolkit")

package(default_visibility = ["//visibility:public"])

cuda_toolkit(
    name = "toolkit",
    nvcc = {nvcc},
    version = {version},
    looked_in = {home},
)

cc_library(
    name = "headers",
    hdrs = glob(["include/**"]),
    includes = ["include"],
    linkopts = {linkopts},
)
"""

_LIBRARY = """
cc_library(
    name = "{0}",
    linkopts = ["-l{0}"],
    deps = [":headers"],
)
"""

def _cuda_configure_impl(rctx):
    home = rctx.os.environ.get("CUDA_HOME") or rctx.os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    nvcc, version, linkopts = "", "", []
    if rctx.path(home + "/bin/nvcc").exists:
        home = str(rctx.path(home).realpath)
        nvcc = home + "/bin/nvcc"
        version = rctx.execute([nvcc, "--version"]).stdout.strip().split("\n")[-1]
        rctx.symlink(home + "/include", "include")
        lib = home + "/lib64"
        linkopts = ["-L" + lib, "-Wl,-rpath," + lib, "-Wl,-rpath-link," + lib]
    build = _BUILD.format(
        nvcc = repr(nvcc),
        version = repr(version),
        home = repr(home),
        linkopts = repr(linkopts),
    )
    rctx.file("BUILD", build + "".join([_LIBRARY.format(library) for library in _LIBRARIES]))

cuda_configure = repository_rule(
    implementation = _cuda_configure_impl,
    environ = ["CUDA_HOME", "CUDA_PATH"],
    local = True,
)
