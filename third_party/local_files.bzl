"""local_files: a repository made of a few files of this project.

It stands in for the repositories that Bazel would otherwise download, and works from an outside project too,
where a local_repository with a relative path would not.
"""

def _local_files_impl(rctx):
    for label, path in rctx.attr.files.items():
        rctx.symlink(label, path)
    for path, text in rctx.attr.texts.items():
        rctx.file(path, text)

local_files = repository_rule(
    implementation = _local_files_impl,
    attrs = {
        "files": attr.label_keyed_string_dict(doc = "file of this project -> path in the repository"),
        "texts": attr.string_dict(doc = "path in the repository -> contents"),
    },
    local = True,
)
