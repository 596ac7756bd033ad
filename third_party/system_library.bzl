"""system_library: one repository for one library that the operating system's packages provide.

The repository @NAME holds one cc_library, @NAME//:NAME, over links to the headers. Nothing is downloaded, and a
header that is not there ends the build with the name of the package to install.
"""

_BUILD = """\
cc_library(
    name = {name},
    hdrs = glob({globs}),
    defines = {defines},
    includes = ["include"],
    linkopts = {linkopts},
    visibility = ["//visibility:public"],
)
"""

def _system_library_impl(rctx):
    for header in rctx.attr.headers:
        path = rctx.path(rctx.attr.root + "/" + header)
        if not path.exists:
            fail("\n\n%s not found: there is no %s.\nInstall it with: apt-get install %s\n" %
                 (rctx.name, path, rctx.attr.package))
        rctx.symlink(path, "include/" + header)
    rctx.file("BUILD", _BUILD.format(
        name = repr(rctx.name),
        # A header is a file or a folder of them (Eigen's have no suffix).
        globs = repr(["include/" + h for h in rctx.attr.headers] + ["include/%s/**" % h for h in rctx.attr.headers]),
        defines = repr(rctx.attr.defines),
        linkopts = repr(rctx.attr.linkopts),
    ))

system_library = repository_rule(
    implementation = _system_library_impl,
    doc = "A library of the operating system as a Bazel repository.",
    attrs = {
        "headers": attr.string_list(mandatory = True, doc = "files or folders under root"),
        "package": attr.string(mandatory = True, doc = "the Debian package that holds them"),
        "root": attr.string(default = "/usr/include"),
        "defines": attr.string_list(),
        "linkopts": attr.string_list(),
    },
    local = True,  # looks again when the server starts, so a package installed meanwhile is found
)
