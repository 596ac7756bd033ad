#!/usr/bin/env python3
"""Checks the includes of all sources, and that the check itself notices each kind of fault."""

import glob
import unittest

from floors import FLOORS, floor_of, violations


class Rules(unittest.TestCase):
    def expect_fault(self, path, text, line, words):
        found = violations(path, text)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(f"{path}:{line}: "), found[0])
        self.assertIn(words, found[0])

    def test_upwards(self):
        self.expect_fault("core/a.cc", '#include "core/a.h"\n#include "autograd/node.h"\n', 2, "not below")
        self.expect_fault("nn/a.h", '\n  #  include "optim/sgd.h"', 2, "not below")
        self.expect_fault("distributed/comm/a.cc", '#include "autograd/node.h"', 1, "not below")
        self.expect_fault("distributed/comm/a.cc", '#include "distributed/ddp.h"', 1, "not below")
        self.expect_fault("distributed/ddp.cc", '#include "models/lenet.h"', 1, "not below")
        self.expect_fault("data/a.cc", '#include "capstan.h"', 1, "not below")

    def test_public_headers_are_thin(self):
        for header in ["Eigen/Core", "mpi.h", "cuda_runtime.h", "fmt/core.h", "nlohmann/json.hpp", "CLI/CLI.hpp"]:
            self.expect_fault("nn/a.h", f"#include <{header}>", 1, "standard headers")
        self.expect_fault("nn/a.h", '#include "core/raise.h"', 1, "internal")
        self.expect_fault("core/a.h", '#include "core/cpu/loop.h"', 1, "internal")

    def test_unknown_paths(self):
        self.expect_fault("core/cpu/a.cc", '#include "loop.h"', 1, "no path in the workspace")
        self.expect_fault("core/cpu/a.cc", '#include "mpi.h"', 1, "no path in the workspace")

    def test_allowed(self):
        for path, include in [
            ("core/a.h", "<vector>"),
            ("core/cpu/loop.h", "<Eigen/Core>"),
            ("core/raise.h", "<fmt/format.h>"),
            ("core/a.cc", '"core/cpu/loop.h"'),
            ("distributed/comm/mpi.cc", "<mpi.h>"),
            ("distributed/ddp.h", '"distributed/comm/communicator.h"'),
            ("capstan.h", '"distributed/ddp.h"'),
            ("models/lenet.h", '"capstan.h"'),
        ]:
            self.assertEqual(violations(path, f"#include {include}\n"), [])
        self.assertEqual(violations("core/a.h", '// #include "nn/linear.h"\n'), [])


class Tree(unittest.TestCase):
    def test_all_sources(self):
        paths = [p for end in ("h", "cc", "cu") for p in glob.glob(f"**/*.{end}", recursive=True)]
        paths = sorted(p for p in paths if floor_of(p) is not None)
        self.assertEqual({floor_of(p) for p in paths}, set(FLOORS), "a floor has no sources")
        found = []
        for path in paths:
            with open(path, encoding="utf-8") as file:
                found += violations(path, file.read())
        self.assertEqual(found, [], "\n" + "\n".join(found))


if __name__ == "__main__":
    unittest.main()
