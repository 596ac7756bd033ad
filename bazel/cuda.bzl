"""cuda_library: a cc_library whose .cu files nvcc compiles. Bazel 4.2.3 knows no CUDA, so the actions are written here.

Reading order: cuda_library (the macro that BUILD files call), then _cuda_library_impl (one nvcc action a file, and
the objects wrapped as a C++ library), then cuda_toolkit, which @local_cuda declares.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

_ARCHITECTURES = ["80", "90"]  # A100, H100; newer devices compile the PTX of the last one

CudaToolkitInfo = provider(fields = ["nvcc", "version"])

def _cuda_toolkit_impl(ctx):
    if not ctx.attr.nvcc:
        fail("\n\nCUDA toolkit not found: there is no %s/bin/nvcc.\n" % ctx.attr.looked_in +
             "Set CUDA_HOME to the toolkit's folder, or build without --config=cuda.\n")
    return [CudaToolkitInfo(nvcc = ctx.attr.nvcc, version = ctx.attr.version)]

cuda_toolkit = rule(
    implementation = _cuda_toolkit_impl,
    attrs = {
        "nvcc": attr.string(),
        "version": attr.string(),
        "looked_in": attr.string(),
    },
)

def _nvcc_flags(ctx, compiler, headers):
    """The options of one compilation: those of the host's C++ code, and one code version an architecture."""
    flags = ["-ccbin", compiler, "--expt-relaxed-constexpr", "--extended-lambda", "-Xcompiler", "-fPIC"]
    flags += ctx.fragments.cpp.cxxopts  # -std=c++20
    for option in ctx.fragments.cpp.copts:  # -march, -fsanitize, ...
        flags += ["-Xcompiler", option]
    flags += {
        "dbg": ["-O0", "-g", "-lineinfo"],
        "fastbuild": ["-O1"],
        "opt": ["-O3", "-DNDEBUG"],
    }[ctx.var["COMPILATION_MODE"]]
    for arch in _ARCHITECTURES:
        flags += ["-gencode", "arch=compute_%s,code=sm_%s" % (arch, arch)]
    flags += ["-gencode", "arch=compute_{0},code=compute_{0}".format(_ARCHITECTURES[-1])]

    flags += ["-D" + define for define in headers.defines.to_list()]
    for folder in [ctx.label.workspace_root or "."] + headers.quote_includes.to_list() + headers.includes.to_list():
        flags += ["-I", folder]
    for folder in headers.system_includes.to_list():
        flags += ["-isystem", folder]
    return flags

def _cuda_library_impl(ctx):
    toolkit = ctx.attr.toolkit[CudaToolkitInfo]
    cc = find_cpp_toolchain(ctx)
    deps = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    flags = _nvcc_flags(ctx, cc.compiler_executable, deps.compilation_context)

    objects = []
    for source in [file for file in ctx.files.srcs if file.extension == "cu"]:
        object = ctx.actions.declare_file("_objs/%s/%s.pic.o" % (ctx.label.name, source.basename[:-3]))
        ctx.actions.run(
            executable = toolkit.nvcc,
            arguments = flags + ["-x", "cu", "-c", source.path, "-o", object.path],
            inputs = depset(ctx.files.srcs + ctx.files.hdrs, transitive = [deps.compilation_context.headers, cc.all_files]),
            outputs = [object],
            mnemonic = "CudaCompile",
            progress_message = "Compiling %s with nvcc" % source.short_path,
            # nvcc calls its own tools by PATH; the version makes a new toolkit compile everything again.
            env = {"PATH": "/usr/bin:/bin", "TMPDIR": "/tmp", "CUDA_TOOLKIT_VERSION": toolkit.version},
        )
        objects.append(object)

    linking_context, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        feature_configuration = cc_common.configure_features(ctx = ctx, cc_toolchain = cc),
        cc_toolchain = cc,
        compilation_outputs = cc_common.create_compilation_outputs(
            objects = depset(objects),
            pic_objects = depset(objects),
        ),
        linking_contexts = [deps.linking_context],
        disallow_dynamic_library = True,
    )
    own = CcInfo(
        compilation_context = cc_common.create_compilation_context(headers = depset(ctx.files.hdrs)),
        linking_context = linking_context,
    )
    headers_of_deps = CcInfo(compilation_context = deps.compilation_context)
    return [
        DefaultInfo(files = depset(objects)),
        cc_common.merge_cc_infos(direct_cc_infos = [own], cc_infos = [headers_of_deps]),
    ]

_cuda_library = rule(
    implementation = _cuda_library_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu", ".cuh", ".h"]),
        "hdrs": attr.label_list(allow_files = [".cuh", ".h"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "toolkit": attr.label(providers = [CudaToolkitInfo]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def cuda_library(name, deps = [], **kwargs):
    """A library of .cu files that exists under --config=cuda only; `//...` skips it otherwise."""
    cuda = "@capstan//bazel:cuda"
    _cuda_library(
        name = name,
        deps = select({
            cuda: deps + ["@local_cuda//:cudart"],
            "//conditions:default": [],
        }),
        toolkit = select({
            cuda: "@local_cuda//:toolkit",
            "//conditions:default": None,
        }),
        target_compatible_with = select({
            cuda: [],
            "//conditions:default": ["@platforms//:incompatible"],
        }),
        **kwargs
    )
